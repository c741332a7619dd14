/**
 * What to do about the pools of prebuilt workspaces. Pure: it decides from one reading of the database
 * (db/queries/prebuilds.ts).
 *
 * A pool is the unclaimed workspaces of one preset. Workspaces that run or start count towards its size. A failed
 * creation delays the next one, longer with each failure in a row, and after too many the pool gets no further
 * workspaces. A stopped workspace was stopped by a person, to look at it: it does not count and is never deleted.
 */
import { type CronTimes, coversMinute, parseCron } from '@ropewalk/kit/cron';
import type { PoolRow, PrebuildRow } from '../../db/queries/prebuilds.ts';

const HOUR_MS = 3_600_000;
/** A deletion that failed is repeated after this time. */
const DELETE_AGAIN_MS = HOUR_MS;

export interface PoolRules {
  /** The delay after a failed creation, for each failure in a row, in ms. */
  backoffMs: number;
  /** After so many failures in a row, no further workspace is created. 0: no limit. */
  failureLimit: number;
}

export interface PoolDecision {
  /** The size that the pool should have now. */
  desired: number;
  /** How many workspaces to create. */
  create: number;
  /** The ids of workspaces to delete. */
  remove: string[];
  /** The ids of pending jobs to cancel. */
  cancel: string[];
  /** Whether too many creations failed. */
  limited: boolean;
}

type Pool = Pick<
  PoolRow,
  | 'is_current'
  | 'instances'
  | 'ttl_seconds'
  | 'invalidated_at'
  | 'time_zone'
  | 'schedules'
  | 'failures'
  | 'recent_failures'
> &
  Pick<PoolRow, 'last_failed_at' | 'retry_at'>;

/** The size of a pool at a time: by the first schedule that covers it, else the usual one. 0 for an outdated preset. */
export function desiredSize(
  pool: Pick<Pool, 'is_current' | 'instances' | 'time_zone' | 'schedules'>,
  now: Date,
): number {
  if (!pool.is_current) return 0;
  const zone = pool.time_zone || 'UTC';
  const active = pool.schedules.find(({ cron }) => coversMinute(parseCron(cron, 'prebuild') as CronTimes, now, zone));
  return active?.instances ?? pool.instances;
}

/** The first time after `now` at which the size of a pool changes, within a week. Undefined without one. */
export function nextChange(
  pool: Pick<Pool, 'is_current' | 'instances' | 'time_zone' | 'schedules'>,
  now: Date,
): { at: Date; instances: number } | undefined {
  if (pool.schedules.length === 0 || !pool.is_current) return undefined;
  const before = desiredSize(pool, now);
  // schedules begin and end with an hour of their time zone, and zones differ by quarters of an hour
  const quarter = HOUR_MS / 4;
  for (
    let at = (Math.floor(now.getTime() / quarter) + 1) * quarter;
    at < now.getTime() + 7 * 24 * HOUR_MS;
    at += quarter
  ) {
    const instances = desiredSize(pool, new Date(at));
    if (instances !== before) return { at: new Date(at), instances };
  }
  return undefined;
}

/** When the pool may create its next workspace after failures. */
export function backoffUntil(
  pool: Pick<Pool, 'recent_failures' | 'last_failed_at' | 'retry_at'>,
  rules: PoolRules,
): number {
  const failed = pool.last_failed_at ? pool.last_failed_at.getTime() + pool.recent_failures * rules.backoffMs : 0;
  return Math.max(failed, pool.retry_at?.getTime() ?? 0);
}

/** Decides about the workspaces of one pool. */
export function decidePool(pool: Pool, prebuilds: readonly PrebuildRow[], rules: PoolRules, now: Date): PoolDecision {
  const desired = desiredSize(pool, now);
  const limited = rules.failureLimit > 0 && pool.failures >= rules.failureLimit;
  const remove: string[] = [];
  const cancel: string[] = [];
  const oldestFirst = prebuilds.toSorted((a, b) => a.created_at.getTime() - b.created_at.getTime());
  const newest = oldestFirst.at(-1);
  const waiting: PrebuildRow[] = [];
  const running: PrebuildRow[] = [];
  let starting = 0;
  for (const one of oldestFirst) {
    switch (phaseOf(one)) {
      case 'waiting':
        waiting.push(one);
        break;
      case 'starting':
        starting += 1;
        break;
      case 'running':
        if (isExpired(one, pool, now)) remove.push(one.id);
        else running.push(one);
        break;
      case 'failed':
        // the newest one stays for people who look for the reason
        if (one !== newest || !pool.is_current) remove.push(one.id);
        break;
      case 'canceled':
        remove.push(one.id);
        break;
      case 'undeleted':
        if ((one.completed_at?.getTime() ?? 0) + DELETE_AGAIN_MS <= now.getTime()) remove.push(one.id);
        break;
      case 'left alone':
        break;
    }
  }
  const alive = waiting.length + starting + running.length;
  let surplus = Math.max(0, alive - desired);
  for (const one of waiting.toReversed().slice(0, surplus)) cancel.push(one.job_id);
  surplus -= cancel.length;
  // a person can have the ready ones immediately
  const leastUseful = [...running.filter(({ ready }) => !ready), ...running.filter(({ ready }) => ready)];
  for (const one of leastUseful.slice(0, Math.max(0, surplus))) remove.push(one.id);
  const mayCreate = !limited && backoffUntil(pool, rules) <= now.getTime();
  return { desired, create: mayCreate ? Math.max(0, desired - alive) : 0, remove, cancel, limited };
}

type Phase = 'waiting' | 'starting' | 'running' | 'failed' | 'canceled' | 'undeleted' | 'left alone';

export function phaseOf({ transition, job_status: status }: Pick<PrebuildRow, 'transition' | 'job_status'>): Phase {
  if (transition === 'delete') return status === 'failed' || status === 'canceled' ? 'undeleted' : 'left alone';
  // only people stop prebuilt workspaces
  if (transition === 'stop') return 'left alone';
  switch (status) {
    case 'pending':
      return 'waiting';
    case 'running':
      return 'starting';
    case 'succeeded':
      return 'running';
    case 'failed':
      return 'failed';
    case 'canceled':
      return 'canceled';
    case 'canceling':
      return 'left alone';
  }
}

const isExpired = (one: PrebuildRow, pool: Pick<Pool, 'ttl_seconds' | 'invalidated_at'>, now: Date): boolean => {
  const { ttl_seconds: ttl, invalidated_at: since } = pool;
  const expired = ttl !== null && ttl > 0 && one.created_at.getTime() + ttl * 1_000 <= now.getTime();
  return expired || (since !== null && one.created_at < since);
};

/** A build that a pool wants. */
export type Step = { kind: 'create'; presetId: string } | { kind: 'delete'; workspaceId: string };

/** How many jobs of an organization may wait or run for its pools at a time: those of half of its daemons. */
export const jobsAtOnce = (daemons: number): number => Math.max(1, Math.ceil(daemons / 2));

/**
 * The builds that may begin now in an organization with room for so many, of each pool at most so many: some may fail to
 * begin. Deletions come first, since they free what the others need. Pools take turns.
 */
export function takeTurns(
  pools: readonly (Pick<PoolDecision, 'create' | 'remove'> & { id: string })[],
  room: number,
): Step[] {
  const steps: Step[] = [];
  const take = (of: (pool: (typeof pools)[number], round: number) => Step | undefined) => {
    for (let round = 0, found = true; found && round < room; round++) {
      found = false;
      for (const pool of pools) {
        const step = of(pool, round);
        if (!step) continue;
        found = true;
        steps.push(step);
      }
    }
  };
  take(({ remove }, round) =>
    remove[round] === undefined ? undefined : { kind: 'delete', workspaceId: remove[round] },
  );
  take(({ id, create }, round) => (round < create ? { kind: 'create', presetId: id } : undefined));
  return steps;
}
