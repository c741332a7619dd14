import { idAttribute, required } from '../../schema.ts';
import type { ResourceType } from '../../types.ts';

export const resource: ResourceType = {
  schema: {
    version: 0,
    description: "Connects a cloud instance to an agent that authenticates with the instance's identity.",
    attributes: {
      id: idAttribute,
      agent_id: required('string', 'The id of a coder_agent.'),
      instance_id: required('string', 'The id of the instance in its cloud.'),
    },
  },
};
