import { matching, oneOf } from '../../checks.ts';
import { idAttribute, optional, required } from '../../schema.ts';
import type { ResourceType } from '../../types.ts';

export const resource: ResourceType = {
  schema: {
    version: 1,
    description: 'Sets an environment variable for everything that an agent runs.',
    attributes: {
      id: idAttribute,
      agent_id: required('string', 'The id of a coder_agent.'),
      name: required('string', 'Name of the variable.', {
        check: matching(/^[a-zA-Z_][a-zA-Z0-9_]*$/, 'is not a valid name of an environment variable'),
      }),
      value: optional('string', 'Value of the variable.'),
      merge_strategy: optional('string', 'What to do if several coder_env set this variable on one agent.', {
        default: 'replace',
        check: oneOf('replace', 'append', 'prepend', 'error'),
      }),
    },
  },
};
