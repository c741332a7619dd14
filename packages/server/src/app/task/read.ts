import { type Task, TaskStatus, type TasksListResponse } from '@ropewalk/contract';
import type { Allowed } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import { isTask } from '../../db/queries/workspaces.ts';
import type { WorkspaceRow } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';
import { findWorkspace, findWorkspaceByName, ownerIdOf } from '../find/workspace.ts';
import { badQuery, parseSearch, searchOneOf } from '../lists/search.ts';
import { isUuid } from '../values/ids.ts';
import { toWorkspace } from '../workspace/convert.ts';
import { listWorkspaces } from '../workspace/list.ts';
import { toTasks } from './convert.ts';

const STATUSES = (TaskStatus as unknown as { enum: readonly string[] }).enum;

/** Lists the tasks that the actor may read. A word without a key names the owner. */
export async function listTasks(ctx: Ctx, q: string | undefined): Promise<TasksListResponse> {
  const search = parseSearch(q, ['owner', 'organization', 'status']);
  const [word, another] = search.words;
  if (another !== undefined || (word !== undefined && search.terms.has('owner'))) {
    throw badQuery('owner', 'a search can have only one owner');
  }
  const owner = search.terms.get('owner') ?? word;
  const organization = search.terms.get('organization');
  const status = searchOneOf(search, 'status', STATUSES);
  const terms = ['has-ai-task:true'];
  if (owner !== undefined) terms.push(`owner:"${owner}"`);
  if (organization !== undefined) terms.push(`organization:"${organization}"`);
  const { workspaces } = await listWorkspaces(ctx, { q: terms.join(' ') });
  const all = await toTasks(ctx, ctx.lists, workspaces);
  const tasks = status === undefined ? all : all.filter((task) => task.status === status);
  return { tasks, count: tasks.length };
}

/** Finds the workspace of a task by its id or by its owner and name. With `deleted`, an id also finds a deleted one. */
export async function findTask(
  ctx: Ctx,
  user: string,
  task: string,
  { deleted = false } = {},
): Promise<Allowed<'read', WorkspaceRow>> {
  const ownerId = await ownerIdOf(ctx, user);
  const found = isUuid(task)
    ? await findWorkspace(ctx, 'read', task, { deleted })
    : await findWorkspaceByName(ctx, 'read', { ownerId, name: task });
  if (!(await isTask(ctx.sql, found.id))) throw notFound();
  return found;
}

export async function getTask(ctx: Ctx, user: string, task: string): Promise<Task> {
  // a page that shows the task while it is deleted goes on asking by its id
  const workspace = await toWorkspace(ctx, await findTask(ctx, user, task, { deleted: true }));
  return (await toTasks(ctx, ctx.sql, [workspace]))[0]!;
}
