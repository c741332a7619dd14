import type { Client } from '@ropewalk/client';
import type { Task } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit/errors';
import { Type } from 'typebox';
import { optional, optionalUuid, text, tool, uuid } from '../tool.ts';
import { parseTarget } from '../workspace/find.ts';

const taskId = text('The id of the task, or its name as [owner/]task. The default owner is the caller.');

/** Finds a task by its id, or by the name that it shares with its workspace. @throws AppError, ApiError */
function findTask(client: Client, input: string): Promise<Task> {
  const { owner, workspace } = parseTarget(input);
  return client.call('GET /tasks/{user}/{task}', { params: { user: owner, task: workspace } });
}

const placeOf = ({ owner_id, id }: Task) => ({ params: { user: owner_id, task: id } });

export const createTask = tool({
  name: 'coder_create_task',
  description: 'Create a task: a workspace in which a coding agent works on a prompt.',
  args: {
    input: text('The prompt.'),
    template_version_id: text('The id of a template version that declares a task.'),
    template_version_preset_id: optional(text('The id of a preset of the template version.')),
    user: optional(text('The username or id of the owner. Default: "me", the caller.')),
  },
  effect: 'change',
  async run({ client }, { input, user, ...args }) {
    if (input === '') throw new AppError('invalid', 'input is empty. Give a prompt.');
    const version = uuid('template_version_id', args.template_version_id);
    const preset = optionalUuid('template_version_preset_id', args.template_version_preset_id);
    return client.call('POST /tasks/{user}', {
      params: { user: user || 'me' },
      body: { input, template_version_id: version, ...(preset ? { template_version_preset_id: preset } : {}) },
    });
  },
});

export const deleteTask = tool({
  name: 'coder_delete_task',
  description: 'Delete a task with its workspace. Ask the person first.',
  args: { task_id: taskId },
  effect: 'destroy',
  async run({ client }, { task_id }) {
    await client.call('DELETE /tasks/{user}/{task}', placeOf(await findTask(client, task_id)));
    return { message: 'The task is being deleted.' };
  },
});

const FILTER = /^[\w.@+-]{1,100}$/;

export const listTasks = tool({
  name: 'coder_list_tasks',
  description: 'List the tasks of one person.',
  args: {
    status: optional(
      Type.Enum(['pending', 'initializing', 'active', 'paused', 'unknown', 'error'], {
        description: 'Only tasks with this status.',
      }),
    ),
    user: optional(text('The username or id of the owner. Default: "me", the caller.')),
  },
  effect: 'read',
  async run({ client }, { status, user }) {
    const owner = user || 'me';
    if (!FILTER.test(owner)) throw new AppError('invalid', `Invalid user ${JSON.stringify(owner.slice(0, 100))}.`);
    const { tasks } = await client.call('GET /tasks', {
      query: { q: `owner:${owner}${status ? ` status:${status}` : ''}` },
    });
    return { tasks };
  },
});

export const taskStatus = tool({
  name: 'coder_get_task_status',
  description: 'Get the status of a task, and what its coding agent reported last.',
  args: { task_id: taskId },
  effect: 'read',
  async run({ client }, { task_id }) {
    const { status, current_state: state } = await findTask(client, task_id);
    return { status, state };
  },
});

export const sendTaskInput = tool({
  name: 'coder_send_task_input',
  description: 'Send a message to the coding agent of a running task.',
  args: { task_id: taskId, input: text('The message.') },
  effect: 'change',
  async run({ client }, { task_id, input }) {
    if (input === '') throw new AppError('invalid', 'input is empty. Give a message.');
    await client.call('POST /tasks/{user}/{task}/send', {
      ...placeOf(await findTask(client, task_id)),
      body: { input },
    });
    return { message: 'The message is sent.' };
  },
});

export const taskLogs = tool({
  name: 'coder_get_task_logs',
  description: 'Get the conversation of a task.',
  args: { task_id: taskId },
  effect: 'read',
  run: async ({ client }, { task_id }) =>
    client.call('GET /tasks/{user}/{task}/logs', placeOf(await findTask(client, task_id))),
});

const MAX_SUMMARY = 160;

export const reportTask = tool({
  name: 'coder_report_task',
  description:
    'Show people what you do. Call it when you begin a step, when you need something from them, and when you are done. ' +
    'Write what the step is about, such as "Fixing the flaky login test".',
  args: {
    summary: Type.String({ description: `One line of up to ${MAX_SUMMARY} characters.` }),
    link: text('A URL about the step, such as that of a pull request. May be empty.'),
    state: Type.Enum(['working', 'complete', 'idle', 'failure'], {
      description:
        'working: you go on. complete or failure: you are done with everything. idle: you wait for a person.',
    }),
  },
  effect: 'change',
  needs: 'agent',
  set: 'task',
  async run({ report }, { summary, link, state }) {
    if ([...summary].length > MAX_SUMMARY)
      throw new AppError('invalid', `summary is longer than ${MAX_SUMMARY} characters.`);
    if (!report) throw new AppError('unavailable', 'This server reports no tasks.');
    await report({ summary, link, state: state as 'working' | 'complete' | 'idle' | 'failure' });
    return { message: 'Reported.' };
  },
});
