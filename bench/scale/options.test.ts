import assert from 'node:assert/strict';
import { test } from 'node:test';
import { company, parseOptions, TIERS } from './options.ts';

test('takes tiers, and all of them', () => {
  const { tiers, minutes, report } = parseOptions(['--tier', 'agents-1000', '--tier', 'builds-60', '--minutes', '0.5']);
  assert.deepEqual(
    tiers.map(({ name }) => name),
    ['agents-1000', 'builds-60'],
  );
  assert.equal(minutes, 0.5);
  assert.equal(report, false);
  assert.equal(parseOptions(['--tier', 'all']).tiers.length, Object.keys(TIERS).length);
});

test('a changed number names the run, so that it does not replace the result of the tier', () => {
  const [one] = parseOptions(['--tier', 'people-1000', '--builds', '9']).tiers;
  assert.equal(one!.name, 'people-1000 with builds 9');
  assert.deepEqual(one!.tier.counts, { ...company(1_000), builds: 9 });
  assert.equal(TIERS['people-1000']!.counts.builds, 60);
});

test('--users makes a company of any size', () => {
  const [one] = parseOptions(['--users', '50']).tiers;
  assert.equal(one!.name, 'users-50');
  assert.equal(one!.tier.counts.agents, 50);
});

test('--soak takes people and minutes, and nothing else', () => {
  const { soak, minutes, tiers } = parseOptions(['--soak']);
  assert.deepEqual([soak, minutes, tiers], [1_000, 120, []]);
  const short = parseOptions(['--soak', '--users', '50', '--minutes', '5']);
  assert.deepEqual([short.soak, short.minutes, short.tiers], [50, 5, []]);
  assert.equal(parseOptions(['--users', '50']).soak, undefined);
  for (const more of [
    ['--tier', 'builds-60'],
    ['--builds', '5'],
  ])
    assert.throws(() => parseOptions(['--soak', ...more]), /--soak takes --users and --minutes/);
});

test('rejects what it does not know, with the reason', () => {
  for (const [args, message] of [
    [['--tier', 'big'], /--tier "big": use agents-1000/],
    [['--agents', '-1'], /--agents/],
    [['--agents', '1e3'], /--agents "1e3": use a whole number/],
    [['--minutes', 'soon'], /--minutes soon/],
    [['--users', '5', '--tier', 'builds-60'], /exclude each other/],
    [['--builds', '5'], /--builds requires --daemons/],
    [['--watchers', '5'], /5 people watch a workspace each, but there are 0 agents/],
    [['--bogus'], /--bogus/],
  ] as const)
    assert.throws(() => parseOptions(args), message);
});
