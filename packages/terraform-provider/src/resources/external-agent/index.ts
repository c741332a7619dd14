import { idAttribute, required } from '../../schema.ts';
import type { ResourceType } from '../../types.ts';

export const resource: ResourceType = {
  schema: {
    version: 1,
    description: 'Declares that an agent runs on a machine that this template does not create.',
    attributes: { id: idAttribute, agent_id: required('string', 'The id of a coder_agent.') },
  },
};
