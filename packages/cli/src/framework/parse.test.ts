import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FlagDefs } from './definition.ts';
import { parseArguments, splitList } from './parse.ts';

const flags = {
  yes: { type: 'bool', short: 'y' },
  verbose: { type: 'bool', short: 'v', default: 'true' },
  name: { type: 'string', short: 'n', env: 'X_NAME' },
  size: { type: 'int', default: '3' },
  after: { type: 'duration' },
  tag: { type: 'string[]', short: 't', env: 'X_TAGS' },
  wait: { type: 'string', values: ['yes', 'no'] },
  url: { type: 'url' },
} as const satisfies FlagDefs;

const parse = (argv: string[], env: NodeJS.ProcessEnv = {}, rawAfter?: number) =>
  parseArguments({ flags, argv, env, rawAfter });

test('values come after =, after a space, or stuck to a short flag', () => {
  for (const argv of [['--name=a'], ['--name', 'a'], ['-n', 'a'], ['-na'], ['-n=a'], ['-yn', 'a']]) {
    assert.equal(parse(argv).flags['name'], 'a', argv.join(' '));
  }
  assert.equal(parse(['-yn', 'a']).flags['yes'], true);
});

test('booleans take no following word', () => {
  const { args, flags: got } = parse(['--yes', 'ws', '--verbose=false']);
  assert.deepEqual(args, ['ws']);
  assert.equal(got['yes'], true);
  assert.equal(got['verbose'], false);
});

test('flags may follow arguments, up to --', () => {
  assert.deepEqual(parse(['ws', '-y', 'cmd', '--', '-y', '--no']).args, ['ws', 'cmd', '-y', '--no']);
});

test('raw arguments keep their dashes', () => {
  const { args, flags: got } = parse(['ws', '-y', 'ls', '-la', '--color'], {}, 1);
  assert.deepEqual(args, ['ws', 'ls', '-la', '--color']);
  assert.equal(got['yes'], true);
});

test('lists repeat and split at commas outside quotes', () => {
  assert.deepEqual(parse(['-t', 'a=1,b=2', '--tag', 'c="x']).flags['tag'], ['a=1', 'b=2', 'c="x']);
  assert.deepEqual(splitList('a,"b,c",d'), ['a', 'b,c', 'd']);
  assert.deepEqual(splitList(''), []);
});

test('a flag ranks above the environment, that above the default', () => {
  assert.equal(parse([], { X_NAME: 'env' }).flags['name'], 'env');
  assert.equal(parse(['--name='], { X_NAME: 'env' }).flags['name'], '');
  assert.deepEqual(parse([], { X_TAGS: 'a,b' }).flags['tag'], ['a', 'b']);
  assert.equal(parse([]).flags['size'], 3);
  assert.equal(parse([]).isSet('size'), false);
  assert.equal(parse([], { X_NAME: 'env' }).isSet('name'), true);
  assert.deepEqual(parse([], { X_NAME: 'env' }).texts, {});
});

test('wrong flags are named', () => {
  const cases: [string[], RegExp][] = [
    [['--nope'], /Unknown flag: --nope/],
    [['-yx'], /Unknown flag: -x in -yx/],
    [['--name'], /--name needs a value/],
    [['--size', 'x'], /--size: "x" is not a whole number/],
    [['--after', '5 weeks'], /--after: Invalid duration/],
    [['--wait=maybe'], /"maybe" is none of yes, no/],
    [['--yes=perhaps'], /not true or false/],
    [['--url', 'x y'], /not a URL/],
    [['--constructor'], /Unknown flag: --constructor/],
  ];
  for (const [argv, message] of cases) assert.throws(() => parse(argv), message, argv.join(' '));
  assert.throws(
    () => parseArguments({ flags: { n: { type: 'int', env: 'N' } }, argv: [], env: { N: 'x' } }),
    /value for N/,
  );
});
