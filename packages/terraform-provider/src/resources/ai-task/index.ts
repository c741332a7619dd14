import { uuid } from '../../checks.ts';
import { taskId, taskPrompt } from '../../environment.ts';
import { computed, required } from '../../schema.ts';
import type { ResourceType } from '../../types.ts';
import { blocks, isUnknown, str } from '../../value.ts';

export const resource: ResourceType = {
  schema: {
    version: 1,
    description: "Makes the template one for tasks and names the app that shows the task's progress.",
    attributes: {
      id: computed('string', 'Id of the task.'),
      app_id: { ...computed('string', 'The id of the coder_app to show.', { check: uuid }), optional: true },
      prompt: computed('string', 'The prompt of the task.'),
      enabled: computed('bool', 'Whether this build is for a task.'),
    },
    blocks: {
      sidebar_app: {
        nesting: 'set',
        maxItems: 1,
        block: {
          deprecated: 'use app_id.',
          attributes: {
            id: required('string', 'The id of the coder_app. Use app_id instead.', { check: uuid }),
          },
        },
      },
    },
  },
  validate(config, { diagnostics }) {
    const app = config['app_id'];
    const given = app !== null;
    const sidebar = blocks(config, 'sidebar_app').length > 0;
    if (given && sidebar)
      diagnostics.error(['app_id'], 'Conflicting attributes', 'Set either app_id or sidebar_app, not both.');
    if (!given && !sidebar && !isUnknown(config['sidebar_app']))
      diagnostics.error([], 'No app', 'Set app_id to the app of the task.');
  },
  plan(planned) {
    const sidebar = blocks(planned, 'sidebar_app')[0];
    if (sidebar) planned['app_id'] = sidebar['id']!;
  },
  create(state, { env }) {
    const id = taskId(env);
    if (id) state['id'] = id;
    const sidebar = blocks(state, 'sidebar_app')[0];
    if (sidebar) state['app_id'] = str(sidebar, 'id');
    const prompt = taskPrompt(env);
    state['prompt'] = prompt || null;
    state['enabled'] = id !== undefined || prompt !== '';
  },
};
