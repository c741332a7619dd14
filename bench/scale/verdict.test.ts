import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TIERS } from './options.ts';
import type { WindowResult } from './results.ts';
import { judge, rowsOf, saturatedPart } from './verdict.ts';

const group = { cores: 0.2, peakCores: 0.3, megabytes: 500, peakMegabytes: 600 };
const latency = { count: 1_000, p50: 2, p99: 10, max: 20 };

const windowOf = (changes: Partial<WindowResult> = {}): WindowResult => ({
  seconds: 60,
  groups: { server: group, postgres: group, daemons: group, generator: group },
  mainThread: 0.2,
  busiestGenerator: 0.3,
  machine: 1,
  others: 0,
  load: 1,
  readMegabytes: 1,
  writtenMegabytes: 1,
  api: latency,
  people: {},
  messages: {},
  ...changes,
});

const builds = { count: 1, perMinute: 1, waitP50Ms: 1, waitP99Ms: 1, ideal: 1, realSucceeded: 0 };
const { counts } = TIERS['agents-10000']!;
const good = {
  errors: 0,
  reasons: [],
  lost: 0,
  connected: counts.agents,
  fresh: 30_000,
  wantedFresh: 30_000,
  quiet: windowOf(),
  counts,
};
const failed = (checks: ReturnType<typeof judge>) => checks.filter(({ met }) => !met).map(({ what }) => what);

test('a run without errors that reaches its figures is good', () => {
  assert.deepEqual(failed(judge(good, { serverCores: 0.25, serverMegabytes: 1_000, apiP99Ms: 10 })), []);
});

test('each kind of loss fails the run', () => {
  assert.deepEqual(failed(judge({ ...good, errors: 1 }, {})), ['errors']);
  assert.deepEqual(failed(judge({ ...good, lost: 1 }, {})), ['agents that lost their connection']);
  assert.deepEqual(failed(judge({ ...good, connected: counts.agents - 1 }, {})), ['agents shown as connected']);
  assert.deepEqual(failed(judge({ ...good, fresh: 29_999 }, {})), ['fresh values of metadata']);
});

test('each figure above its reach fails the run', () => {
  const reach = { serverCores: 0.19, serverMegabytes: 599, apiP99Ms: 9.9 };
  assert.equal(failed(judge(good, reach)).length, 3);
});

test("the processor is judged without the owner's requests, if that was measured", () => {
  const alone = windowOf({ groups: { ...good.quiet.groups, server: { ...group, cores: 0.1 } } });
  assert.deepEqual(failed(judge({ ...good, alone }, { serverCores: 0.15 })), []);
});

test('a figure that was not measured fails the run', () => {
  const quiet = windowOf({ api: { ...latency, p99: Number.NaN } });
  assert.deepEqual(failed(judge({ ...good, quiet }, { apiP99Ms: 10 })), ['p99 of the API']);
});

test('compares the API while builds run with the quiet part of the run', () => {
  const slow = { ...windowOf({ api: { ...latency, p99: 21 } }), ...builds };
  const what = ['p99 of the API while builds run, compared with before'];
  assert.deepEqual(failed(judge({ ...good, builds: slow }, { slower: 2 })), what);
  const fine = { ...windowOf({ api: { ...latency, p99: 19 } }), ...builds };
  assert.deepEqual(failed(judge({ ...good, builds: fine }, { slower: 2 })), []);
});

test('names the part that has nothing left, the generator first', () => {
  const idle = { mainThread: 0.2, busiestGenerator: 0.2, machine: 0.8, others: 0.1, processors: 2 };
  assert.equal(saturatedPart(idle), '');
  assert.match(saturatedPart({ ...idle, mainThread: 0.9 }), /main thread/);
  assert.match(saturatedPart({ ...idle, mainThread: 0.9, busiestGenerator: 0.9 }), /generator/);
  assert.match(saturatedPart({ ...idle, machine: 1.8 }), /of the machine/);
  assert.match(saturatedPart({ ...idle, machine: 1.8, others: 1.2 }), /by other work/);
});

test('a row carries the verdict of its check', () => {
  const rows = rowsOf('tier', judge({ ...good, errors: 3 }, {}));
  assert.deepEqual(
    rows.filter(({ met }) => !met).map(({ what, ours, reach }) => [what, ours, reach]),
    [['tier: errors', '3', '≤ 0']],
  );
});
