import type {
  PutExtendWorkspaceRequest,
  UpdateWorkspaceAutomaticUpdatesRequest,
  UpdateWorkspaceAutostartRequest,
  UpdateWorkspaceTTLRequest,
} from '@platform/contract';
import { AppError } from '@platform/kit';
import { cronError } from '@platform/kit/cron';
import { authorize } from '../../authz/authorize.ts';
import { latestBuild } from '../../db/queries/builds.ts';
import type { Ctx } from '../context.ts';
import { findWorkspace, workspaceObject } from './find.ts';
import { changeWorkspace } from './update.ts';

const MINUTE_MS = 60_000;
const LONGEST_TTL_MS = 30 * 24 * 60 * MINUTE_MS;
const LEAST_DEADLINE_MS = 30 * MINUTE_MS;

const refuse = (field: string, detail: string) =>
  new AppError('invalid', `Invalid ${field}.`, { validations: [{ field, detail }] });

interface Allowed {
  allow_user_autostart: boolean;
  allow_user_autostop: boolean;
}

/**
 * A weekly schedule: `[CRON_TZ=Area/City ]minute hour * * days`. Gives null where there is none.
 */
export function checkAutostart(schedule: string | undefined, template: Allowed): string | null {
  const text = schedule?.trim() ?? '';
  if (text === '') return null;
  if (!template.allow_user_autostart)
    throw refuse('schedule', 'Autostart is not allowed for workspaces of this template.');
  const detail = cronError(text, 'weekly');
  if (detail !== undefined) throw refuse('schedule', detail);
  return text;
}

/** Milliseconds after which a started workspace is stopped; null for never. */
export function checkTtl(ttlMs: number | undefined, template: Allowed): number | null {
  if (ttlMs === undefined || ttlMs === 0) return null;
  if (!template.allow_user_autostop)
    throw refuse('ttl_ms', 'Custom autostop is not allowed for workspaces of this template.');
  if (ttlMs < MINUTE_MS) throw refuse('ttl_ms', 'must be at least one minute');
  if (ttlMs > LONGEST_TTL_MS) throw refuse('ttl_ms', 'must be at most 30 days');
  return ttlMs;
}

async function templateOf(ctx: Ctx, templateId: string): Promise<Allowed> {
  const [row] = await ctx.sql<
    Allowed[]
  >`SELECT allow_user_autostart, allow_user_autostop FROM templates WHERE id = ${templateId}`;
  return row!;
}

export async function setAutostart(ctx: Ctx, id: string, input: UpdateWorkspaceAutostartRequest): Promise<void> {
  const workspace = await findWorkspace(ctx, id);
  authorize(ctx, 'update', workspaceObject(workspace));
  const schedule = checkAutostart(input.schedule, await templateOf(ctx, workspace.template_id));
  await changeWorkspace(
    ctx,
    workspace,
    (tx) => tx`UPDATE workspaces SET autostart_schedule = ${schedule} WHERE id = ${id}`,
  );
}

export async function setTtl(ctx: Ctx, id: string, input: UpdateWorkspaceTTLRequest): Promise<void> {
  const workspace = await findWorkspace(ctx, id);
  authorize(ctx, 'update', workspaceObject(workspace));
  const ttl = checkTtl(input.ttl_ms, await templateOf(ctx, workspace.template_id));
  await changeWorkspace(ctx, workspace, async (tx) => {
    await tx`UPDATE workspaces SET ttl_ms = ${ttl} WHERE id = ${id}`;
    // without a time to live the running build has no end either
    if (ttl === null) {
      await tx`UPDATE workspace_builds SET deadline = NULL WHERE workspace_id = ${id} AND build_number =
        (SELECT max(build_number) FROM workspace_builds WHERE workspace_id = ${id})`;
    }
  });
}

export async function setAutomaticUpdates(
  ctx: Ctx,
  id: string,
  input: UpdateWorkspaceAutomaticUpdatesRequest,
): Promise<void> {
  const workspace = await findWorkspace(ctx, id);
  authorize(ctx, 'update', workspaceObject(workspace));
  const value = input.automatic_updates ?? 'never';
  await changeWorkspace(
    ctx,
    workspace,
    (tx) => tx`UPDATE workspaces SET automatic_updates = ${value} WHERE id = ${id}`,
  );
}

/** Moves the end of a running workspace. */
export async function extend(ctx: Ctx, id: string, input: PutExtendWorkspaceRequest): Promise<{ message: string }> {
  const workspace = await findWorkspace(ctx, id);
  authorize(ctx, 'update', workspaceObject(workspace));
  const build = await latestBuild(ctx.sql, id);
  if (build?.transition !== 'start' || build.job_status !== 'succeeded') {
    throw new AppError(
      'conflict',
      `Workspace must be started; current status: ${build?.transition} ${build?.job_status}`,
    );
  }
  if (!build.deadline) throw new AppError('conflict', 'Workspace shutdown is manual.');
  const deadline = new Date(input.deadline);
  const now = ctx.clock.now().getTime();
  if (Number.isNaN(deadline.getTime())) throw refuse('deadline', 'must be a time');
  if (deadline.getTime() - now < LEAST_DEADLINE_MS)
    throw new AppError('invalid', 'Cannot extend workspace: new deadline must be at least 30 minutes in the future');
  if (build.max_deadline && deadline > build.max_deadline)
    throw new AppError('invalid', 'Cannot extend workspace beyond max deadline.');
  await changeWorkspace(
    ctx,
    workspace,
    (tx) => tx`UPDATE workspace_builds SET deadline = ${deadline} WHERE id = ${build.id}`,
  );
  return { message: `Deadline updated to ${deadline.toISOString()}.` };
}
