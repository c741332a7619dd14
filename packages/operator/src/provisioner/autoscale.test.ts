import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Demand, decide } from './autoscale.ts';

const QUIET: Demand = {
  min: 0,
  max: 10,
  idleMs: 60_000,
  pending: 0,
  busy: 0,
  current: 0,
  now: 0,
  surplusSince: undefined,
};

const CASES: [what: string, demand: Partial<Demand>, replicas: number][] = [
  ['nothing to do', {}, 0],
  ['a job in the queue', { pending: 1 }, 1],
  ['more jobs in addition to running builds', { pending: 3, busy: 2, current: 2 }, 5],
  ['more jobs than daemons allowed', { pending: 30 }, 10],
  ['the least number', { min: 2 }, 2],
  ['free daemons for the queue', { pending: 2, current: 3, surplusSince: -60_000 }, 2],
  ['a surplus that is new', { current: 3 }, 3],
  ['a surplus within the idle time', { current: 3, surplusSince: -59_999 }, 3],
  ['a surplus after the idle time', { current: 3, surplusSince: -60_000 }, 0],
  ['builds that still run after the idle time', { current: 3, busy: 2, surplusSince: -60_000 }, 2],
  ['a maximum that was lowered', { current: 12, max: 4 }, 4],
  ['a maximum that was lowered below the running builds', { current: 12, max: 4, busy: 6 }, 6],
  ['no idle time', { current: 3, idleMs: 0 }, 0],
];
for (const [what, demand, replicas] of CASES) {
  test(`${what}: ${replicas}`, () => assert.equal(decide({ ...QUIET, ...demand }).replicas, replicas));
}

test('a new job starts the idle time over', () => {
  const first = decide({ ...QUIET, current: 2, now: 0 });
  assert.deepEqual([first.replicas, first.surplusSince, first.againMs], [2, 0, 60_000]);
  const busy = decide({ ...QUIET, current: 2, now: 50_000, pending: 2, surplusSince: first.surplusSince });
  assert.equal(busy.surplusSince, undefined);
  const again = decide({ ...QUIET, current: 2, now: 61_000, surplusSince: busy.surplusSince });
  assert.deepEqual([again.replicas, again.againMs], [2, 60_000]);
});
