import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DueWorkspace } from '../../db/queries/schedules.ts';
import { afterFailedAttempt, decide } from './decide.ts';
import { dueWorkspace as row } from './testing/due-workspace.ts';

const MINUTE = 60_000;
const at = (text: string) => new Date(`2026-03-02T${text}:00Z`);
const daily = { autostart_schedule: 'CRON_TZ=UTC 0 9 * * *', next_start_at: at('09:00') };
const down = { transition: 'stop', reason: 'autostop' } as const;

/** What happens, and from when on: the decision at a time, and one millisecond before. */
function turns(workspace: DueWorkspace, when: Date) {
  const before = decide(workspace, new Date(when.getTime() - 1));
  assert.equal(before.action, undefined);
  assert.deepEqual(before.until, when);
  return decide(workspace, when).action;
}

test('stops at the deadline, and starts at the next time of the schedule', () => {
  assert.deepEqual(turns(row({ deadline: at('10:00') }), at('10:00')), { transition: 'stop', reason: 'autostop' });
  assert.deepEqual(turns(row({ ...daily, ...down }), at('09:00')), { transition: 'start', reason: 'autostart' });
  // a start that was missed while the server was away
  assert.equal(decide(row({ ...daily, ...down }), at('11:00')).action?.transition, 'start');
  // one whose time to live ends at a start stops first
  const isEnding = row({ ...daily, deadline: at('09:00') });
  assert.deepEqual(decide(isEnding, at('09:00')).nextStartAt, at('09:00'));
  assert.equal(turns(isEnding, at('09:00'))?.transition, 'stop');
  // a running workspace skips its start
  const running = decide(row(daily), at('09:30'));
  assert.deepEqual([running.action, running.nextStartAt?.toISOString()], [undefined, '2026-03-03T09:00:00.000Z']);
});

test('reminds the owner before a stop, unless somebody uses the workspace and that can still move the stop', () => {
  const ends = { deadline: at('12:00'), time_til_autostop_notify_ms: 60 * MINUTE };
  const reminds = (workspace: DueWorkspace, when: string) => {
    const { remind, until } = decide(workspace, at(when));
    return [remind, until?.toISOString().slice(11, 16)];
  };
  assert.deepEqual(reminds(row(ends), '10:59'), [false, '11:00']);
  assert.deepEqual(reminds(row(ends), '11:00'), [true, '12:00']);
  assert.deepEqual(reminds(row({ ...ends, time_til_autostop_notify_ms: 0 }), '11:30'), [false, '12:00']);
  const used = { ...ends, last_used_at: at('11:20') };
  assert.deepEqual(reminds(row(used), '11:21'), [false, '11:35']);
  assert.deepEqual(reminds(row(used), '11:35'), [true, '12:00']);
  assert.deepEqual(reminds(row({ ...used, activity_bump_ms: 0 }), '11:21'), [true, '12:00']);
  assert.deepEqual(reminds(row({ ...used, max_deadline: at('12:00') }), '11:21'), [true, '12:00']);
  assert.deepEqual(reminds(row({ ...used, max_deadline: at('13:00') }), '11:21'), [false, '11:35']);
  // the stop itself comes first
  assert.equal(decide(row(ends), at('12:00')).remind, false);
  for (const never of [{ dormant_at: at('10:00') }, { owner_status: 'suspended' }, { job_status: 'failed' }] as const)
    assert.equal(decide(row({ ...ends, ...never }), at('11:30')).remind, false, JSON.stringify(never));
});

test('does nothing while a build runs, and starts what was due meanwhile', () => {
  const stopping = row({ ...daily, ...down, job_status: 'running' });
  assert.deepEqual(decide(stopping, at('09:01')), { remind: false, until: null, nextStartAt: at('09:00') });
  assert.equal(decide({ ...stopping, job_status: 'succeeded' }, at('09:02')).action?.transition, 'start');
});

test('follows the policies of the template and the state of the owner', () => {
  for (const never of [
    { owner_status: 'dormant' },
    { owner_status: 'suspended' },
    { allow_user_autostart: false },
    { dormant_at: at('08:30') },
  ] as const) {
    assert.equal(decide(row({ ...daily, ...down, ...never }), at('09:30')).action, undefined, JSON.stringify(never));
  }
  // a Monday
  const { nextStartAt } = decide(row({ ...daily, autostart_days: ['friday'], next_start_at: null }), at('08:00'));
  assert.equal(nextStartAt?.toISOString(), '2026-03-06T09:00:00.000Z');
  assert.equal(decide(row({ owner_status: 'suspended' }), at('08:00')).action?.transition, 'stop');
});

test('waits longer after each failure, at most an hour, and gives up a start until its next time', () => {
  const failed = (attempts: number, more: Partial<DueWorkspace>) =>
    row({ job_status: 'failed', automatic_attempts: attempts, completed_at: at('09:05'), ...more });
  const wait = (workspace: DueWorkspace) =>
    (decide(workspace, at('09:05')).until!.getTime() - at('09:05').getTime()) / MINUTE;
  const start = { ...daily, next_start_at: null, reason: 'autostart' };
  assert.deepEqual(
    [1, 2, 3, 4, 5].map((n) => wait(failed(n, start))),
    [1, 2, 4, 8, 16],
  );
  assert.equal(wait(failed(6, start)), 24 * 60 - 5, 'the next time of the schedule');
  assert.deepEqual(
    [1, 6, 7, 30].map((n) => wait(failed(n, down))),
    [1, 32, 60, 60],
  );
  assert.equal(decide(failed(1, { reason: 'initiator' }), at('23:00')).action, undefined, 'a person retries');
  const clean = turns(failed(1, { reason: 'initiator', failure_ttl_ms: 30 * MINUTE }), at('09:35'));
  assert.equal(clean?.transition, 'stop');
  const stop = { transition: 'stop', reason: 'initiator', failure_ttl_ms: 30 * MINUTE } as const;
  assert.equal(decide(failed(1, stop), at('23:00')).action, undefined, 'the policy is for failed starts');
});

test('waits after an attempt that could not begin a build', () => {
  const due = row({ ...daily, ...down });
  const action = decide(due, at('09:00')).action!;
  const first = afterFailedAttempt(due, action, at('09:00'));
  assert.deepEqual(first, { attempts: 1, retryAt: at('09:01'), nextStartAt: at('09:00') });
  const waiting = { ...due, automatic_attempts: 1, automatic_retry_at: first.retryAt };
  assert.deepEqual(turns(waiting, at('09:01')), action);
  const last = afterFailedAttempt({ ...due, automatic_attempts: 5 }, action, at('09:31'));
  assert.deepEqual(last, { attempts: 0, retryAt: null, nextStartAt: new Date('2026-03-03T09:00:00Z') });
});

test('makes unused workspaces dormant, stops those that run, and deletes them later', () => {
  const unused = { time_til_dormant_ms: 120 * MINUTE };
  assert.deepEqual(turns(row(unused), at('10:00')), { transition: 'stop', reason: 'dormancy' });
  assert.deepEqual(turns(row({ ...unused, ...down }), at('10:00')), { reason: 'dormancy' });
  const dormant = { dormant_at: at('10:00'), ...unused, ...down };
  assert.deepEqual(decide(row(dormant), at('23:00')), { remind: false, until: null, nextStartAt: null });
  assert.equal(decide(row({ ...dormant, ...daily }), at('08:30')).nextStartAt, null);
  // made dormant by a person while it runs
  assert.equal(decide(row({ dormant_at: at('10:00') }), at('10:00')).action?.transition, 'stop');
  const doomed = { ...dormant, deleting_at: at('12:00'), time_til_dormant_autodelete_ms: 120 * MINUTE };
  assert.deepEqual(turns(row(doomed), at('12:00')), { transition: 'delete', reason: 'dormancy' });
  const stuck = row({ ...doomed, transition: 'delete', job_status: 'failed', completed_at: at('12:00') });
  assert.deepEqual(turns(stuck, new Date('2026-03-03T12:00:00Z')), { transition: 'delete', reason: 'dormancy' });
});
