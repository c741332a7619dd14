import { NIL, taskId, taskPrompt } from '../../environment.ts';
import { computed } from '../../schema.ts';
import type { DataSource } from '../../types.ts';

export const dataSource: DataSource = {
  schema: {
    version: 0,
    description: 'The task that the workspace is built for, if any.',
    attributes: {
      id: computed('string', 'Id of the task.'),
      prompt: computed('string', 'The prompt of the task.'),
      enabled: computed('bool', 'Whether this build is for a task.'),
    },
  },
  read(_config, { env, diagnostics }) {
    const given = env['CODER_TASK_ID'] ?? '';
    const id = taskId(env);
    if (!id && given !== '' && given !== NIL)
      diagnostics.error([], 'Incomplete job', `CODER_TASK_ID ${JSON.stringify(given)} must be a UUID.`);
    return { id: id ?? NIL, prompt: taskPrompt(env), enabled: id !== undefined };
  },
};
