/**
 * What the server does with a workspace by itself, and when. Pure: it decides from one row (db/queries/schedules.ts).
 *
 * An automatic start or stop that fails is tried again: after one minute, then after twice the time of the attempt
 * before, at most an hour. After `MAX_STARTS` attempts a start waits for the next time of its schedule. A stop is tried
 * until it succeeds, since a workspace that goes on running costs.
 */

import { PREBUILDS_USER_ID } from '@ropewalk/contract/permissions';
import { AUTOMATIC_REASONS, type AutomaticReason } from '../../db/queries/builds.ts';
import type { DueWorkspace } from '../../db/queries/schedules.ts';
import type { JobStatus } from '../../db/rows.ts';
import { nextStart } from './times.ts';

const MINUTE_MS = 60_000;
const LONGEST_BACKOFF_MS = 60 * MINUTE_MS;
const MAX_STARTS = 6;
/** A deletion that failed is repeated after this time, as upstream does. */
const DELETE_AGAIN_MS = 24 * 60 * MINUTE_MS;
/** Somebody uses a workspace for this time after the last sign of use, as upstream says. */
const ACTIVE_MS = 15 * MINUTE_MS;
/** Workspaces with the same time start and stop over this time, each always at the same moment of it. */
const JITTER_MS = 20_000;

export interface Action {
  /** Absent: a workspace that does not run becomes dormant without a build. */
  transition?: 'start' | 'stop' | 'delete';
  reason: AutomaticReason;
}

export interface Decision {
  /** What to do now. Absent: nothing before `until`. */
  action?: Action;
  /** Whether the owner should know that the workspace stops soon. The same deadline needs one message. */
  remind: boolean;
  /** When to look again. Null: when something changes. */
  until: Date | null;
  nextStartAt: Date | null;
}

const SETTLED: ReadonlySet<JobStatus> = new Set(['succeeded', 'failed', 'canceled']);

interface Candidate extends Action {
  at: number;
}

/** A time of this workspace between none and `JITTER_MS`. */
export const jitterOf = (id: string): number => (Number.parseInt(id.slice(0, 8), 16) / 0x1_0000_0000) * JITTER_MS;

const backoff = (attempts: number): number =>
  Math.min(LONGEST_BACKOFF_MS, MINUTE_MS * 2 ** Math.max(0, Math.min(attempts, 20) - 1));

/** Decides what to do with a workspace at a time. */
export function decide(row: DueWorkspace, now: Date): Decision {
  // app/prebuild/decide.ts decides about workspaces that nobody has claimed yet
  if (row.owner_id === PREBUILDS_USER_ID) return { remind: false, until: null, nextStartAt: null };
  const nextStartAt = nextStartOf(row, now);
  // a change of the job's status is a reason for another look
  if (!SETTLED.has(row.job_status)) return { remind: false, until: null, nextStartAt };
  const retryAt = row.automatic_retry_at?.getTime() ?? 0;
  const reminderAt = reminderOf(row, now);
  const remind = reminderAt !== undefined && reminderAt <= now.getTime();
  let until = reminderAt === undefined || remind ? Number.POSITIVE_INFINITY : reminderAt;
  for (const { at: wanted, ...action } of candidatesOf({ ...row, next_start_at: nextStartAt })) {
    const at = Math.max(wanted, retryAt);
    if (at <= now.getTime()) return { action, remind: false, until: null, nextStartAt };
    until = Math.min(until, at);
  }
  return { remind, until: Number.isFinite(until) ? new Date(until) : null, nextStartAt };
}

/**
 * When to remind the owner of a stop that comes. Undefined if it does not come by itself. While somebody uses the workspace
 * and that may still move the stop out of the time of the reminder, the reminder waits.
 */
function reminderOf(row: DueWorkspace, now: Date): number | undefined {
  const { deadline, max_deadline: latest, time_til_autostop_notify_ms: lead } = row;
  if (lead === 0 || !deadline || row.transition !== 'start' || row.job_status !== 'succeeded') return undefined;
  if (row.dormant_at !== null || row.owner_status === 'suspended' || deadline <= now) return undefined;
  const at = deadline.getTime() - lead;
  const movable = row.activity_bump_ms > 0 && !(latest && latest.getTime() - lead <= now.getTime());
  const idleAt = (row.last_used_at?.getTime() ?? 0) + ACTIVE_MS;
  return movable ? Math.max(at, idleAt) : at;
}

/** When to try again after an attempt that could not begin a build. A start gives up until the next time of its schedule. */
export function afterFailedAttempt(
  row: DueWorkspace,
  { transition }: Action,
  now: Date,
): { attempts: number; retryAt: Date | null; nextStartAt: Date | null } {
  const attempts = row.automatic_attempts + 1;
  if (transition === 'start' && attempts >= MAX_STARTS) {
    return { attempts: 0, retryAt: null, nextStartAt: nextStart(row, now) };
  }
  return { attempts, retryAt: new Date(now.getTime() + backoff(attempts)), nextStartAt: row.next_start_at };
}

/**
 * The stored time of the next start stays while the workspace is down, so that a start that was missed is caught up. A
 * workspace that is up skips its starts, except those from its deadline on: it stops first and starts again.
 */
function nextStartOf(row: DueWorkspace, now: Date): Date | null {
  const stored = row.next_start_at;
  if (!row.autostart_schedule || !row.allow_user_autostart || row.dormant_at !== null) return null;
  const isSkipped = row.transition === 'start' && !(stored && row.deadline && stored >= row.deadline);
  if (stored && (stored > now || !isSkipped)) return stored;
  return nextStart(row, now);
}

/** What may be done, the most urgent first, each with its time. */
function* candidatesOf(row: DueWorkspace): Generator<Candidate> {
  const { transition, dormant_at: dormantAt, automatic_attempts: attempts } = row;
  const failed = row.job_status === 'failed';
  const ended = row.completed_at?.getTime() ?? 0;
  const jitter = jitterOf(row.id);
  const wasAutomatic = AUTOMATIC_REASONS.has(row.reason);

  if (dormantAt !== null && transition === 'start') yield { at: 0, transition: 'stop', reason: 'dormancy' };
  if (dormantAt === null && transition === 'start' && !failed) {
    if (row.owner_status === 'suspended') yield { at: 0, transition: 'stop', reason: 'autostop' };
    else if (row.deadline) yield { at: row.deadline.getTime() + jitter, transition: 'stop', reason: 'autostop' };
  }
  if (transition === 'stop' && failed && wasAutomatic) {
    const reason = row.reason === 'dormancy' ? 'dormancy' : 'autostop';
    yield { at: ended + backoff(attempts), transition: 'stop', reason };
  }
  if (dormantAt === null && row.owner_status === 'active' && row.next_start_at) {
    const start = { transition: 'start', reason: 'autostart' } as const;
    const scheduled = row.next_start_at.getTime() + jitter;
    if (transition === 'stop' && !failed) yield { at: scheduled, ...start };
    if (transition === 'start' && failed && row.reason === 'autostart') {
      yield { at: attempts < MAX_STARTS ? Math.min(scheduled, ended + backoff(attempts)) : scheduled, ...start };
    }
  }
  if (row.failure_ttl_ms > 0 && failed && transition === 'start') {
    yield { at: ended + row.failure_ttl_ms, transition: 'stop', reason: 'autostop' };
  }
  if (dormantAt === null && row.time_til_dormant_ms > 0) {
    const at = (row.last_used_at ?? row.created_at).getTime() + row.time_til_dormant_ms + jitter;
    yield { at, ...(transition === 'start' ? { transition: 'stop' as const } : {}), reason: 'dormancy' };
  }
  if (dormantAt !== null && row.deleting_at && row.time_til_dormant_autodelete_ms > 0) {
    const again = transition === 'delete' && failed ? ended + DELETE_AGAIN_MS : 0;
    yield { at: Math.max(row.deleting_at.getTime() + jitter, again), transition: 'delete', reason: 'dormancy' };
  }
}
