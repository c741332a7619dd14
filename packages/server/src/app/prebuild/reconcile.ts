import { PREBUILDS_USER_ID } from '@ropewalk/contract/permissions';
import { AppError, isAppError } from '@ropewalk/kit';
import { authorize } from '../../authz/authorize.ts';
import { systemTask } from '../../authz/proofs.ts';
import { isTransient } from '../../db/connect.ts';
import { versionRules } from '../../db/queries/build-sources.ts';
import { latestBuild } from '../../db/queries/builds.ts';
import { onlineDaemons } from '../../db/queries/daemons.ts';
import { templateAdmins } from '../../db/queries/notifications.ts';
import {
  activePoolJobs,
  insertPoolMember,
  lockPool,
  lockPrebuild,
  markLimitReported,
  type PoolRow,
  type PrebuildRow,
  pools as readPools,
  prebuilds as readPrebuilds,
  storePoolAttempt,
} from '../../db/queries/prebuilds.ts';
import { auditedWorkspace, insertWorkspace } from '../../db/queries/workspaces.ts';
import { audit } from '../audit-entries/audit.ts';
import type { Ctx, Services } from '../context/context.ts';
import { requestCancel } from '../job/cancel.ts';
import { notify } from '../notification/enqueue.ts';
import { type Answers, withAnswers } from '../parameters/answers.ts';
import { TemplateTurns } from '../schedule/template-turns.ts';
import { attemptError } from '../workspace/build/attempt.ts';
import { valuesBefore } from '../workspace/build/create.ts';
import { insertBuild, orderBuild } from '../workspace/build/insert.ts';
import { prepareBuild } from '../workspace/build/prepare.ts';
import { decidePool, jobsAtOnce, type PoolDecision, type PoolRules, type Step, takeTurns } from './decide.ts';
import { newPrebuildName } from './name.ts';
import { arePoolsPaused } from './settings.ts';

export const poolRules = ({ config }: Pick<Services, 'config'>): PoolRules => ({
  backoffMs: config.workspacePrebuildsReconciliationBackoffInterval,
  failureLimit: config.workspacePrebuildsFailureHardLimit,
});

/** The time from which failures delay the next creation. */
export const lookbackFrom = ({ config, clock }: Pick<Services, 'config' | 'clock'>): Date =>
  new Date(clock.now().getTime() - config.workspacePrebuildsReconciliationBackoffLookbackPeriod);

/** The maximum number of builds that begin at the same time. Those of one template begin one after another. */
const CONCURRENT = 3;
/** No further build begins after this time. The rest is decided again. */
const LONGEST_MS = 5_000;

/** The pool of workspaces whose preset is gone. */
const NO_POOL = { create: 0, cancel: [], limited: false };

/**
 * Brings every pool closer to its size. Does nothing while pools are paused. Returns whether it ran out of time, so that
 * it should run again immediately.
 */
export async function reconcilePools(ctx: Ctx): Promise<boolean> {
  if (await arePoolsPaused(ctx)) return false;
  const now = ctx.clock.now();
  // read before the workspaces: those that are created meanwhile are not missing from a pool
  const active = await activePoolJobs(ctx.sql);
  const pools = await readPools(ctx.sql, lookbackFrom(ctx));
  const prebuilds = await readPrebuilds(ctx.sql);
  const byPreset = Map.groupBy(prebuilds, (one) => one.preset_id ?? '');
  const organizations = new Map<string, (Pick<PoolDecision, 'create' | 'remove'> & { id: string })[]>();
  const add = (organizationId: string, decision: Pick<PoolDecision, 'create' | 'remove'> & { id: string }) =>
    organizations.set(organizationId, [...(organizations.get(organizationId) ?? []), decision]);
  for (const pool of pools) {
    const decision = decidePool(pool, byPreset.get(pool.id) ?? [], poolRules(ctx), now);
    for (const jobId of decision.cancel) await cancelWaiting(ctx, jobId);
    if (decision.limited && pool.is_current && pool.limit_reported_at === null) await reportLimit(ctx, pool);
    add(pool.organization_id, { id: pool.id, ...decision });
  }
  for (const one of withoutPool(byPreset)) add(one.organization_id, { ...NO_POOL, id: '', remove: [one.id] });
  const rooms = new Map<string, Room>();
  const templates = new Map([...pools, ...prebuilds].map((one) => [one.id, one.template_id]));
  const steps: TemplateStep[] = [];
  for (const [organizationId, decisions] of organizations) {
    const left = Math.max(
      0,
      jobsAtOnce(await onlineDaemons(ctx.sql, organizationId)) - (active.get(organizationId) ?? 0),
    );
    rooms.set(organizationId, { left, delayed: [] });
    for (const step of takeTurns(decisions, left)) {
      const templateId = templates.get(step.kind === 'create' ? step.presetId : step.workspaceId)!;
      steps.push({ ...step, organization_id: organizationId, template_id: templateId });
    }
  }
  return begin(ctx, steps, rooms);
}

/** How many jobs an organization may still get, and the steps that wait for one that fails to begin. */
interface Room {
  left: number;
  delayed: TemplateStep[];
}

type TemplateStep = Step & { organization_id: string; template_id: string };

/**
 * Begins builds, those of each template one after another. So a template whose evaluation is slow does not delay the pools
 * of the others. A build that cannot begin takes no room from the others either. Returns whether it ran out of time.
 */
async function begin(ctx: Ctx, steps: readonly TemplateStep[], rooms: ReadonlyMap<string, Room>): Promise<boolean> {
  const end = ctx.clock.monotonic() + LONGEST_MS;
  const failed = new Set<string>();
  const errors: unknown[] = [];
  const turns = new TemplateTurns<TemplateStep>({ most: CONCURRENT, mostOfTemplate: 1 }, async (step) => {
    if (step.kind === 'create' && failed.has(step.presetId)) return;
    const room = rooms.get(step.organization_id)!;
    if (room.left === 0) {
      room.delayed.push(step);
      return;
    }
    room.left--;
    try {
      if (await take(ctx, step)) return;
      if (step.kind === 'create') failed.add(step.presetId);
      room.left++;
      turns.add(room.delayed.splice(0));
    } catch (err) {
      errors.push(err);
    }
  });
  turns.add(steps);
  while (!ctx.signal.aborted && errors.length === 0 && ctx.clock.monotonic() < end) {
    turns.begin();
    if (turns.running === 0) break;
    await turns.oneEnded(ctx.clock, end - ctx.clock.monotonic());
  }
  await turns.allEnded();
  if (errors.length > 0) throw errors[0];
  ctx.signal.throwIfAborted();
  return turns.waiting > 0;
}

const withoutPool = (byPreset: Map<string, PrebuildRow[]>): PrebuildRow[] =>
  (byPreset.get('') ?? []).filter(({ transition }) => transition === 'start');

async function take(ctx: Ctx, step: TemplateStep): Promise<boolean> {
  try {
    if (step.kind === 'delete') return await removePrebuild(ctx, step.workspaceId, step.template_id);
    return await createPrebuild(ctx, step.presetId, step);
  } catch (err) {
    if (isTransient(err) || ctx.signal.aborted) throw err;
    ctx.log.warn('could not begin a build of a pool', { ...step, err });
    if (step.kind === 'create') {
      const error = attemptError(err);
      const retryAt = new Date(ctx.clock.now().getTime() + poolRules(ctx).backoffMs);
      const counts = isAppError(err, 'invalid');
      await storePoolAttempt(ctx.sql, systemTask(ctx), step.presetId, { error, retryAt, counts });
    }
    return false;
  }
}

async function createPrebuild(
  ctx: Ctx,
  presetId: string,
  { organization_id: organizationId, template_id: templateId }: TemplateStep,
): Promise<boolean> {
  await ctx.sql.begin((tx) => insertPoolMember(tx, systemTask(ctx), organizationId));
  // the same in each run of the transaction, since a template's tags can depend on them
  const id = crypto.randomUUID();
  const name = newPrebuildName();
  const createOne = (answers: Answers) =>
    ctx.sql.begin(async (tx) => {
      const pool = await lockPool(tx, presetId);
      if (!pool) return false;
      const template = await versionRules(tx, pool.template_id);
      const prepared = await prepareBuild(ctx, tx, answers, template, {
        transition: 'start',
        versionId: pool.version_id,
        ownerId: PREBUILDS_USER_ID,
        presetId,
        given: [],
        last: undefined,
      });
      const creatable = authorize(ctx, 'create', { type: 'workspace', ownerId: PREBUILDS_USER_ID, organizationId });
      const made = await insertWorkspace(tx, creatable, {
        id,
        template_id: template.id,
        name,
        autostart_schedule: null,
        ttl_ms: null,
        automatic_updates: 'never',
        next_start_at: null,
        prebuilt_preset_id: presetId,
      });
      await audit(ctx, tx, {
        resourceType: 'workspace',
        resourceId: made.id,
        target: made.name,
        action: 'create',
        organizationId,
        status: 201,
        userId: PREBUILDS_USER_ID,
        fields: { automatic_actor: 'coder', automatic_subsystem: 'prebuilds' },
        after: await auditedWorkspace(tx, made.id),
      });
      const order = orderBuild(ctx, 'start', made);
      await insertBuild(ctx, tx, answers, order, { ...prepared, reason: 'initiator', logLevel: '' });
      await storePoolAttempt(tx, systemTask(ctx), presetId, null);
      return true;
    });
  return withAnswers(ctx, createOne, templateId);
}

async function removePrebuild(ctx: Ctx, id: string, templateId: string): Promise<boolean> {
  const removeOne = (answers: Answers) =>
    ctx.sql.begin(async (tx) => {
      const workspace = await lockPrebuild(tx, id);
      const last = workspace && (await latestBuild(tx, id));
      if (!last) return false;
      const template = await versionRules(tx, last.template_id);
      const prepared = await prepareBuild(ctx, tx, answers, template, {
        transition: 'delete',
        versionId: last.template_version_id,
        ownerId: workspace.owner_id,
        presetId: undefined,
        given: [],
        last: await valuesBefore(tx, last, 'delete'),
      });
      const order = orderBuild(ctx, 'delete', workspace);
      await insertBuild(ctx, tx, answers, order, { ...prepared, reason: 'initiator', logLevel: '', last });
      return true;
    });
  return withAnswers(ctx, removeOne, templateId);
}

/** Cancels a creation that no daemon has taken. Nothing if one just did. */
async function cancelWaiting(ctx: Ctx, jobId: string): Promise<void> {
  await requestCancel(ctx, { task: systemTask(ctx), job_id: jobId }).catch((err) => {
    if (!(err instanceof AppError)) throw err;
    ctx.log.debug('a job of a pool could not be canceled', { job_id: jobId, err });
  });
}

/** Notifies the template's administrators once: a pool gets no further workspaces. */
async function reportLimit(ctx: Ctx, pool: PoolRow): Promise<void> {
  await ctx.sql.begin(async (tx) => {
    if (!(await markLimitReported(tx, systemTask(ctx), pool.id, ctx.clock.now()))) return;
    ctx.log.warn('a pool of prebuilt workspaces reached its failure limit', { preset_id: pool.id });
    await notify(ctx, tx, {
      template: 'prebuildLimitReached',
      to: await templateAdmins(tx, pool.organization_id),
      labels: { template: pool.template_name, preset: pool.name, version: pool.version_name },
      targets: [pool.template_id, pool.organization_id],
      event: `failure limit of preset ${pool.id}`,
    });
  });
}
