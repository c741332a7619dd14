import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PoolRow, PrebuildRow } from '../../db/queries/prebuilds.ts';
import { decidePool, desiredSize, jobsAtOnce, nextChange, type PoolRules, phaseOf, takeTurns } from './decide.ts';

const NOW = new Date('2026-03-04T10:30:00Z'); // a Wednesday
const MINUTE = 60_000;
const RULES: PoolRules = { backoffMs: MINUTE, failureLimit: 3 };
const ago = (ms: number) => new Date(NOW.getTime() - ms);

const pool = (more: Partial<PoolRow> = {}): PoolRow => ({
  id: 'pool',
  name: 'Small',
  version_id: '',
  version_name: '',
  template_id: '',
  template_name: '',
  organization_id: '',
  organization_name: '',
  is_current: true,
  instances: 2,
  ttl_seconds: null,
  invalidated_at: null,
  time_zone: '',
  schedules: [],
  failures: 0,
  recent_failures: 0,
  last_failed_at: null,
  error: '',
  invalid: false,
  retry_at: null,
  limit_reported_at: null,
  ...more,
});

/** `start:succeeded:ready` and the like, the oldest first. Each was made a minute after the one before. */
const prebuilds = (...texts: string[]): PrebuildRow[] =>
  texts.map((text, i) => {
    const [transition, status, note] = text.split(':');
    return {
      id: `w${i}`,
      organization_id: '',
      template_id: '',
      preset_id: 'pool',
      created_at: ago((texts.length - i) * MINUTE),
      transition: transition as PrebuildRow['transition'],
      job_id: `j${i}`,
      job_status: status as PrebuildRow['job_status'],
      completed_at: ago((texts.length - i) * MINUTE),
      ready: note === 'ready',
    };
  });

const decide = (given: Partial<PoolRow>, ...texts: string[]) => {
  const { create, remove, cancel } = decidePool(pool(given), prebuilds(...texts), RULES, NOW);
  return [create, remove.join(), cancel.join()];
};

const READY = 'start:succeeded:ready';
const UP = 'start:succeeded';
const STARTING = 'start:running';
const WAITING = 'start:pending';
const FAILED = 'start:failed';

test('decides what a pool needs', () => {
  const table: [string, Partial<PoolRow>, string[], [number, string, string]][] = [
    ['an empty pool', {}, [], [2, '', '']],
    ['a full pool', {}, [READY, UP], [0, '', '']],
    ['workspaces on their way count', {}, [WAITING, STARTING], [0, '', '']],
    ['one was claimed', {}, [READY], [1, '', '']],
    ['a surplus: those that do not run yet go first', {}, [READY, WAITING, WAITING], [0, '', 'j2']],
    ['a surplus: ready ones stay', {}, [READY, UP, READY], [0, 'w1', '']],
    ['a surplus: the oldest of the ready ones goes', {}, [READY, READY, READY], [0, 'w0', '']],
    ['a surplus that is being built is deleted later', { instances: 0 }, [STARTING], [0, '', '']],
    ['an outdated preset', { is_current: false }, [READY, WAITING, FAILED], [0, 'w2,w0', 'j1']],
    ['a stopped workspace was parked by a person', {}, ['stop:succeeded', READY, READY], [0, '', '']],
    ['one that is being deleted does not count', {}, ['delete:running', READY], [1, '', '']],
    ['an expired one is replaced', { ttl_seconds: 90 }, [READY, READY], [1, 'w0', '']],
    ['one made before an invalidation is replaced', { invalidated_at: ago(90_000) }, [READY, READY], [1, 'w0', '']],
    ['no expiry by default', { ttl_seconds: null }, [READY, READY], [0, '', '']],
    ['the newest failure stays to be looked at', {}, [FAILED, FAILED], [2, 'w0', '']],
    ['failures go after a success', {}, [FAILED, READY], [1, 'w0', '']],
    ['a canceled creation leaves nothing', {}, ['start:canceled', READY], [1, 'w0', '']],
    ['a job that is being canceled is waited for', {}, ['start:canceling', READY], [1, '', '']],
    ['a failed deletion waits', {}, ['delete:failed', READY, READY], [0, '', '']],
    ['after a failure it waits', { failures: 1, recent_failures: 1, last_failed_at: ago(MINUTE / 2) }, [], [0, '', '']],
    ['and then tries again', { failures: 1, recent_failures: 1, last_failed_at: ago(MINUTE) }, [], [2, '', '']],
    ['longer after two', { failures: 2, recent_failures: 2, last_failed_at: ago(MINUTE) }, [], [0, '', '']],
    ['failures of yesterday do not delay', { failures: 2, last_failed_at: ago(1) }, [], [2, '', '']],
    ['too many failures', { failures: 3, last_failed_at: ago(1e9) }, [], [0, '', '']],
    ['a build that could not begin', { retry_at: new Date(NOW.getTime() + 1) }, [], [0, '', '']],
  ];
  for (const [what, given, texts, expected] of table) assert.deepEqual(decide(given, ...texts), expected, what);
  const late = prebuilds('delete:failed').map((one) => ({ ...one, completed_at: ago(61 * MINUTE) }));
  assert.deepEqual(decidePool(pool(), late, RULES, NOW).remove, ['w0']);
  assert.equal(decidePool(pool({ failures: 9 }), [], { ...RULES, failureLimit: 0 }, NOW).create, 2);
});

test('takes the size from the schedule that covers the time', () => {
  const work = pool({
    instances: 1,
    time_zone: 'Europe/Berlin',
    schedules: [
      { cron: '* 8-18 * * 1-5', instances: 5 },
      { cron: '* 8-14 * * 6', instances: 0 },
    ],
  });
  const size = (at: string) => desiredSize(work, new Date(at));
  assert.deepEqual(
    ['2026-03-04T06:59:59Z', '2026-03-04T07:00:00Z', '2026-03-04T17:59:59Z', '2026-03-04T18:00:00Z'].map(size),
    [1, 5, 5, 1],
  );
  assert.deepEqual(['2026-03-07T07:00:00Z', '2026-03-08T07:00:00Z'].map(size), [0, 1]);
  // daylight saving: eight o'clock comes an hour earlier
  assert.deepEqual(['2026-03-30T05:59:00Z', '2026-03-30T06:00:00Z'].map(size), [1, 5]);
  assert.equal(desiredSize({ ...work, is_current: false }, NOW), 0);
  assert.deepEqual(nextChange(work, NOW), { at: new Date('2026-03-04T18:00:00Z'), instances: 1 });
  assert.equal(nextChange(pool(), NOW), undefined);
  assert.equal(nextChange(pool({ schedules: [{ cron: '* * 30 2 *', instances: 9 }] }), NOW), undefined);
});

test('shares the queue between pools', () => {
  assert.deepEqual([0, 1, 2, 3, 10].map(jobsAtOnce), [1, 1, 1, 2, 5]);
  const pools = [
    { id: 'a', create: 3, remove: ['x'] },
    { id: 'b', create: 1, remove: [] },
  ];
  const taken = (room: number) =>
    takeTurns(pools, room).map((step) => (step.kind === 'create' ? step.presetId : step.workspaceId));
  assert.deepEqual(taken(0), []);
  // one that cannot begin must not keep the other pools from their turns
  assert.deepEqual(taken(1), ['x', 'a', 'b']);
  assert.deepEqual(taken(2), ['x', 'a', 'b', 'a']);
  assert.deepEqual(taken(9), ['x', 'a', 'b', 'a', 'a']);
});

/** Numbers of a seed, so that a failure can be repeated. */
function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

test('holds its promises for random pools, and reaches the size', () => {
  const transitions = ['start', 'start', 'start', 'stop', 'delete'] as const;
  const statuses = ['pending', 'running', 'succeeded', 'succeeded', 'canceling', 'canceled', 'failed'] as const;
  for (let seed = 1; seed <= 2_000; seed++) {
    const random = randomOf(seed);
    const given = pool({
      instances: random(5),
      is_current: random(5) > 0,
      ttl_seconds: random(3) === 0 ? 60 * (1 + random(5)) : null,
      failures: random(5),
    });
    let rows = prebuilds(
      ...Array.from({ length: random(9) }, () => {
        return `${transitions[random(5)]}:${statuses[random(7)]}:${random(2) ? 'ready' : ''}`;
      }),
    );
    const { desired, create, remove, cancel, limited } = decidePool(given, rows, RULES, NOW);
    const why = JSON.stringify({ seed, given, rows });
    const byId = new Map(rows.map((row) => [row.id, row]));
    assert.equal(new Set(remove).size, remove.length, why);
    for (const id of remove) {
      const row = byId.get(id)!;
      assert.ok(
        !['pending', 'running', 'canceling'].includes(row.job_status),
        `never two builds at the same time ${why}`,
      );
      assert.notEqual(row.transition, 'stop', `parked workspaces stay ${why}`);
    }
    for (const id of cancel) {
      assert.equal(phaseOf(rows.find(({ job_id }) => job_id === id)!), 'waiting', why);
    }
    assert.ok(create === 0 || cancel.length === 0, `it does not create and cancel ${why}`);
    assert.ok(create === 0 || (given.is_current && !limited), why);
    // what it asks for happens: the pool then has its size and is left in peace
    rows = rows.filter(({ id, job_id }) => !remove.includes(id) && !cancel.includes(job_id));
    rows = rows.map((row) => (row.job_status === 'running' ? { ...row, job_status: 'succeeded', ready: true } : row));
    const fresh = prebuilds(...Array.from({ length: create }, () => READY));
    rows.push(...fresh.map((row, i) => ({ ...row, id: `n${i}`, job_id: `nj${i}`, created_at: NOW })));
    const second = decidePool(given, rows, RULES, NOW);
    if (!limited) {
      assert.equal(second.create === 0 || second.remove.length > 0 || create === 0, true, why);
      rows = rows.filter(({ id, job_id }) => !second.remove.includes(id) && !second.cancel.includes(job_id));
      const size = rows.filter((row) => ['waiting', 'starting', 'running'].includes(phaseOf(row))).length;
      assert.equal(size + second.create, Math.max(desired, size), why);
      assert.ok(size <= desired, why);
    }
  }
});
