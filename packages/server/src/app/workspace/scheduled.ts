/**
 * Does what is due for a workspace: starts, stops or deletes it, or makes it dormant. All of it is one transaction under
 * the lock of the workspace's row, which decides again from the locked row. So it is done once whatever other servers do,
 * and not lost if this server dies in between.
 */
import { allow } from '../../authz/authorize.ts';
import { systemTask } from '../../authz/proofs.ts';
import { isTransient, type Tx } from '../../db/connect.ts';
import { versionRules } from '../../db/queries/build-sources.ts';
import { latestBuild } from '../../db/queries/builds.ts';
import { type DueWorkspace, lockDueWorkspace, storeFailedAttempt, storeLooks } from '../../db/queries/schedules.ts';
import { auditedWorkspace, setDormant } from '../../db/queries/workspaces.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx } from '../context/context.ts';
import { workspaceObject } from '../find/workspace.ts';
import { notifyAttemptFailed, notifyAutoUpdated, notifyDormant, notifyStopsSoon } from '../notification/schedules.ts';
import { type Answers, withAnswers } from '../parameters/answers.ts';
import { type Action, afterFailedAttempt, decide } from '../schedule/decide.ts';
import { attemptError } from './build/attempt.ts';
import { usualVersion, valuesBefore } from './build/create.ts';
import { insertBuild, orderBuild } from './build/insert.ts';
import { prepareBuild } from './build/prepare.ts';

/** Does what is due for this workspace now. Nothing, if a person or another server was faster. */
export async function actOn(
  ctx: Ctx,
  { id, template_id: templateId }: Pick<DueWorkspace, 'id' | 'template_id'>,
): Promise<Action | undefined> {
  const act = (answers: Answers) =>
    ctx.sql.begin(async (tx) => {
      const row = await lockDueWorkspace(tx, id);
      if (!row) return undefined;
      const { action, ...look } = decide(row, ctx.clock.now());
      if (!action) {
        if (look.remind) await notifyStopsSoon(ctx, tx, { ...row, deadline: row.deadline! });
        await storeLooks(tx, systemTask(ctx), [{ ...row, ...look }]);
        return undefined;
      }
      if (action.reason === 'dormancy' && row.dormant_at === null) await makeDormant(ctx, tx, row);
      if (action.transition) await build(ctx, tx, answers, row, { ...action, transition: action.transition });
      return action;
    });
  try {
    return await withAnswers(ctx, act, templateId);
  } catch (err) {
    // the workspace stays due
    if (isTransient(err) || ctx.signal.aborted) throw err;
    await recordFailure(ctx, id, err);
    return undefined;
  }
}

async function build(
  ctx: Ctx,
  tx: Tx,
  answers: Answers,
  row: DueWorkspace,
  { transition, reason }: Required<Action>,
): Promise<void> {
  const order = orderBuild(ctx, transition, row);
  const last = await latestBuild(tx, row.id);
  const template = await versionRules(tx, row.template_id);
  const versionId = usualVersion(row, transition, last);
  const prepared = await prepareBuild(ctx, tx, answers, template, {
    transition,
    versionId,
    ownerId: row.owner_id,
    presetId: undefined,
    given: [],
    last: last && (await valuesBefore(tx, last, transition)),
  });
  const buildId = await insertBuild(ctx, tx, answers, order, { ...prepared, reason, logLevel: '', last });
  if (transition === 'start' && versionId !== row.template_version_id) await notifyAutoUpdated(ctx, tx, row, buildId);
}

async function makeDormant(ctx: Ctx, tx: Tx, row: DueWorkspace): Promise<void> {
  const before = await auditedWorkspace(tx, row.id);
  const dormant = await setDormant(tx, allow(ctx, 'update', row, workspaceObject(row)), ctx.clock.now());
  await audit(ctx, tx, {
    resourceType: 'workspace',
    resourceId: row.id,
    target: row.name,
    action: 'write',
    organizationId: row.organization_id,
    fields: { automatic_actor: 'coder', automatic_subsystem: 'dormancy' },
    before,
    after: await auditedWorkspace(tx, row.id),
  });
  await notifyDormant(ctx, tx, { ...row, ...dormant }, row.time_til_dormant_ms);
  await ctx.events.publish(tx, 'app_access_changed', { workspace_id: row.id });
  await ctx.events.publish(tx, 'workspace_changed', { workspace_id: row.id, owner_id: row.owner_id });
}

/** Stores why a build could not begin and when the next attempt comes. The owner gets one message. */
async function recordFailure(ctx: Ctx, id: string, err: unknown): Promise<void> {
  const error = attemptError(err);
  await ctx.sql.begin(async (tx) => {
    const row = await lockDueWorkspace(tx, id);
    const { action } = row ? decide(row, ctx.clock.now()) : {};
    if (!row || !action) return;
    const next = afterFailedAttempt(row, action, ctx.clock.now());
    ctx.log.warn('an automatic build could not begin', {
      workspace_id: id,
      reason: action.reason,
      attempt: row.automatic_attempts + 1,
      again_at: next.retryAt?.toISOString() ?? 'the next time of its schedule',
      err,
    });
    await storeFailedAttempt(tx, systemTask(ctx), row, { error, ...next });
    if (row.automatic_attempts === 0) await notifyAttemptFailed(ctx, tx, row, { ...action, error });
    await ctx.events.publish(tx, 'workspace_changed', { workspace_id: id, owner_id: row.owner_id });
  });
}
