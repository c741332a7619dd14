import { taskPrompt } from '../../environment.ts';
import { computed } from '../../schema.ts';
import type { DataSource } from '../../types.ts';

const NIL = '00000000-0000-0000-0000-000000000000';

export const dataSource: DataSource = {
  schema: {
    version: 0,
    description: 'The task that the workspace is built for, if any.',
    attributes: {
      id: computed('string', 'Identity of the task.'),
      prompt: computed('string', 'What the task was asked to do.'),
      enabled: computed('bool', 'Whether this build is for a task.'),
    },
  },
  read(_config, { env }) {
    const id = env['CODER_TASK_ID'] ?? '';
    return { id: id || NIL, prompt: taskPrompt(env), enabled: id !== '' };
  },
};
