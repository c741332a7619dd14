import { randomBytes } from 'node:crypto';
import type { CreateTaskRequest, Task, TaskBuildResponse } from '@ropewalk/contract';
import { AppError, isAppError } from '@ropewalk/kit';
import { PROMPT_PARAMETER } from '@ropewalk/rules/task';
import { allow } from '../../authz/authorize.ts';
import type { Tx } from '../../db/connect.ts';
import { latestBuild } from '../../db/queries/builds.ts';
import { setTaskPrompt } from '../../db/queries/tasks.ts';
import type { Ctx } from '../context/context.ts';
import { findVersion } from '../find/template.ts';
import { findUser } from '../find/user.ts';
import { workspaceObject } from '../find/workspace.ts';
import { createBuild, lockUnchanged } from '../workspace/build/create.ts';
import { createWorkspace } from '../workspace/create.ts';
import { changeWorkspace } from '../workspace/update.ts';
import { MAX_TITLE_LENGTH, toTasks } from './convert.ts';
import { findTask } from './read.ts';

/** A workspace's name has 32 characters. The rest makes it unique. */
const MAX_WORDS_LENGTH = 24;

/** Creates a workspace that works on a prompt. */
export async function createTask(ctx: Ctx, user: string, input: CreateTaskRequest): Promise<Task> {
  const owner = await findUser(ctx, 'read', user);
  requirePrompt(input.input);
  const title = checkTitle(input.display_name);
  await requireTasks(ctx, input.template_version_id);
  const request = {
    name: input.name || nameFor(input.input),
    template_version_id: input.template_version_id,
    ...(input.template_version_preset_id ? { template_version_preset_id: input.template_version_preset_id } : {}),
    rich_parameter_values: [{ name: PROMPT_PARAMETER, value: input.input }],
  };
  const workspace = await createWorkspace(ctx, owner.id, request, undefined, { taskDisplayName: title });
  return (await toTasks(ctx, ctx.sql, [workspace]))[0]!;
}

/** @throws AppError `invalid` if the title is too long */
function checkTitle(given = ''): string {
  const title = given.trim();
  if (title.length <= MAX_TITLE_LENGTH) return title;
  throw new AppError('invalid', `The title of a task can have up to ${MAX_TITLE_LENGTH} characters.`, {
    validations: [{ field: 'display_name', detail: `can have up to ${MAX_TITLE_LENGTH} characters` }],
  });
}

function requirePrompt(prompt: string): void {
  if (prompt.trim() !== '') return;
  throw new AppError('invalid', 'A task needs a prompt.', {
    validations: [{ field: 'input', detail: 'must not be empty' }],
  });
}

/** @throws AppError `invalid` if the actor may not read the version, or if it has no tasks */
async function requireTasks(ctx: Ctx, versionId: string): Promise<void> {
  const wrong = (message: string, detail: string) =>
    new AppError('invalid', message, { validations: [{ field: 'template_version_id', detail }] });
  const version = await findVersion(ctx, 'read', versionId).catch((err: unknown) => {
    if (!isAppError(err, 'not_found')) throw err;
    throw wrong('Template version not found, or you do not have access to it.', 'not found');
  });
  if (!version.has_ai_task) {
    throw wrong('This template version has no tasks: it does not declare "coder_ai_task".', 'has no tasks');
  }
}

/** A name from the prompt's first words, with a random end, so that two tasks can have the same prompt. */
function nameFor(prompt: string): string {
  const words = prompt.toLowerCase().match(/[a-z0-9]+/g) ?? [];
  let name = '';
  for (const word of words) {
    const longer = name === '' ? word.slice(0, MAX_WORDS_LENGTH) : `${name}-${word}`;
    if (longer.length > MAX_WORDS_LENGTH) break;
    name = longer;
  }
  return `${name || 'task'}-${randomBytes(3).toString('hex')}`;
}

export async function deleteTask(ctx: Ctx, user: string, task: string): Promise<undefined> {
  const { id } = await findTask(ctx, user, task);
  await createBuild(ctx, id, { transition: 'delete' });
}

/** Stops the workspace of a task. */
export async function pauseTask(ctx: Ctx, user: string, task: string): Promise<TaskBuildResponse> {
  const { id } = await findTask(ctx, user, task);
  return { workspace_build: await createBuild(ctx, id, { transition: 'stop' }) };
}

/** Starts the workspace of a task. @throws AppError `conflict` if it runs */
export async function resumeTask(ctx: Ctx, user: string, task: string): Promise<TaskBuildResponse> {
  const { id, status } = await findTask(ctx, user, task);
  if (status === 'running') throw new AppError('conflict', 'The workspace of this task is already running.');
  return { workspace_build: await createBuild(ctx, id, { transition: 'start' }) };
}

/**
 * Changes the prompt of a stopped task. The next build starts with it.
 * @throws AppError `conflict` if the task is not paused
 */
export async function changeTaskPrompt(ctx: Ctx, user: string, task: string, prompt: string): Promise<undefined> {
  requirePrompt(prompt);
  const found = await findTask(ctx, user, task);
  const workspace = allow(ctx, 'update', found, workspaceObject(found));
  const change = async (tx: Tx) => {
    await lockUnchanged(tx, workspace);
    const last = await latestBuild(tx, workspace.id);
    if (last?.transition !== 'stop' || last.job_status !== 'succeeded') {
      throw new AppError('conflict', 'The prompt of a task can change only while the task is paused.', {
        detail: 'Stop its workspace first.',
      });
    }
    await setTaskPrompt(tx, workspace, prompt);
  };
  await changeWorkspace(ctx, workspace, change, { task_prompt: 'changed' });
}
