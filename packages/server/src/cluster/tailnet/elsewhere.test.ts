import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Elsewhere, LEASE_MS } from './elsewhere.ts';

const RECORD = { owner: 'user a', keys: ['k1'], pairs: [['k1', 'k2']] as [string, string][] };

function setup(t: TestContext) {
  const clock = { now: 10_000 };
  const gone: string[] = [];
  const moved: string[] = [];
  const elsewhere = new Elsewhere({
    now: () => clock.now,
    onKeys: () => {},
    onPresent: (key) => moved.push(key),
    onAbsent: (key) => gone.push(key),
  });
  t.after(() => elsewhere.close());
  return { elsewhere, clock, gone, moved };
}

test('a pair counts in both directions, until its server was silent for the lease', (t) => {
  const { elsewhere, clock } = setup(t);
  const stream = elsewhere.announcement('one');
  stream.record('p', RECORD);
  assert.equal(elsewhere.permits('k1', 'k2'), false, 'not complete');
  stream.complete();
  assert.ok(elsewhere.permits('k1', 'k2') && elsewhere.permits('k2', 'k1'));
  assert.deepEqual([elsewhere.partnersOf('k1'), elsewhere.partnersOf('k2')], [['k2'], ['k1']]);
  clock.now += LEASE_MS - 1;
  stream.alive();
  clock.now += LEASE_MS - 1;
  assert.equal(elsewhere.permits('k1', 'k2'), true);
  clock.now += 1;
  assert.equal(elsewhere.permits('k1', 'k2'), false);
  assert.deepEqual(elsewhere.partnersOf('k2'), []);
  assert.equal(elsewhere.introduced('k1'), true);
  stream.record('p', { ...RECORD, pairs: [] });
  assert.equal(elsewhere.permits('k1', 'k2'), false, 'ended');
  assert.deepEqual([elsewhere.partnersOf('k1'), elsewhere.partnersOf('k2')], [[], []]);
});

test('only the owner of a key at another server may publish it', (t) => {
  const { elsewhere } = setup(t);
  const stream = elsewhere.announcement('one');
  stream.complete();
  stream.record('p', RECORD);
  assert.deepEqual([elsewhere.mayPublish('k1', 'user a'), elsewhere.mayPublish('k1', 'user b')], [true, false]);
  stream.record('p', undefined);
  assert.equal(elsewhere.mayPublish('k1', 'user b'), true);
});

test('a node is where it connected last, until that server is gone', (t) => {
  const { elsewhere, gone, moved } = setup(t);
  const one = elsewhere.announcement('one');
  one.present('k1', true);
  one.complete();
  const two = elsewhere.announcement('two');
  two.complete();
  two.present('k1', true);
  assert.equal(elsewhere.placeOf('k1'), 'two');
  assert.deepEqual(moved, ['k1'], 'not from the first announcements');
  two.end();
  assert.deepEqual([elsewhere.placeOf('k1'), gone], ['one', []]);
  // a new stream of a server replaces the earlier one, whose end has no effect
  const again = elsewhere.announcement('one');
  again.complete();
  assert.deepEqual([elsewhere.placeOf('k1'), gone], [undefined, ['k1']]);
  one.end();
  assert.equal(elsewhere.present, 0);
});
