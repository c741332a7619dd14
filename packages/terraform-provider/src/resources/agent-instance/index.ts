import { idAttribute, required } from '../../schema.ts';
import type { ResourceType } from '../../types.ts';

export const resource: ResourceType = {
  schema: {
    version: 0,
    description: 'Ties a cloud instance to an agent that proves itself by the identity of its instance.',
    attributes: {
      id: idAttribute,
      agent_id: required('string', 'The id of a coder_agent.'),
      instance_id: required('string', 'The id that the cloud gave the instance.'),
    },
  },
};
