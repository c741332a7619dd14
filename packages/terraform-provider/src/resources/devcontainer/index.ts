import { notEmpty } from '../../checks.ts';
import { computed, idAttribute, optional, required } from '../../schema.ts';
import type { ResourceType } from '../../types.ts';

export const resource: ResourceType = {
  schema: {
    version: 1,
    description: 'A dev container that the agent starts in the workspace.',
    attributes: {
      id: idAttribute,
      agent_id: required('string', 'The id of a coder_agent.'),
      workspace_folder: required('string', 'Directory of the project in the workspace.', { check: notEmpty }),
      config_path: optional('string', 'Path of devcontainer.json, if not in one of the standard locations.'),
      subagent_id: computed('string', 'Id of the agent inside the dev container.'),
    },
  },
  create(state) {
    state['subagent_id'] = crypto.randomUUID();
  },
};
