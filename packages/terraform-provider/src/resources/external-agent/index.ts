import { idAttribute, required } from '../../schema.ts';
import type { ResourceType } from '../../types.ts';

export const resource: ResourceType = {
  schema: {
    version: 1,
    description: 'Says that an agent runs on a machine which this template does not create.',
    attributes: { id: idAttribute, agent_id: required('string', 'The id of a coder_agent.') },
  },
};
