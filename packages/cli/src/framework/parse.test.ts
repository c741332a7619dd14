import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseArguments, splitList, splitPairs } from './parse.ts';
import type { FlagDefs } from './types.ts';

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

test('reads a value after =, after a space, or attached to a short flag', () => {
  for (const argv of [['--name=a'], ['--name', 'a'], ['-n', 'a'], ['-na'], ['-n=a'], ['-yn', 'a']]) {
    assert.equal(parse(argv).flags['name'], 'a', argv.join(' '));
  }
  assert.equal(parse(['-yn', 'a']).flags['yes'], true);
});

test('leaves the word after a boolean flag alone', () => {
  const { words, flags: got } = parse(['--yes', 'ws', '--verbose=false']);
  assert.deepEqual(words, ['ws']);
  assert.equal(got['yes'], true);
  assert.equal(got['verbose'], false);
});

test('accepts flags after arguments, up to --', () => {
  assert.deepEqual(parse(['ws', '-y', 'cmd', '--', '-y', '--no']).words, ['ws', 'cmd', '-y', '--no']);
});

test('keeps the dashes of raw arguments', () => {
  const { words, flags: got } = parse(['ws', '-y', 'ls', '-la', '--color'], {}, 1);
  assert.deepEqual(words, ['ws', 'ls', '-la', '--color']);
  assert.equal(got['yes'], true);
});

test('repeats lists and splits them at commas outside quotes', () => {
  assert.deepEqual(parse(['-t', 'a=1,b=2', '--tag', 'c="x']).flags['tag'], ['a=1', 'b=2', 'c="x']);
  assert.deepEqual(splitList('a,"b,c",d'), ['a', 'b,c', 'd']);
  assert.deepEqual(splitList(''), []);
});

test('splits pairs as upstream does, and keeps commas and quotes of values that it refuses', () => {
  const cases: Record<string, string[]> = {
    'a=1,b=2': ['a=1', 'b=2'],
    'a=1,"b=2,3"': ['a=1', 'b=2,3'],
    '"ides=[""vim"",""emacs""]"': ['ides=["vim","emacs"]'],
    'ides=["vim","emacs"]': ['ides=["vim","emacs"]'],
    'a=1,ides=["x=1","y=2"],b=2': ['a=1', 'ides=["x=1","y=2"]', 'b=2'],
    's=hello, world': ['s=hello, world'],
    'NO_PROXY=a,b,.c': ['NO_PROXY=a,b,.c'],
    'n=[1,2]': ['n=[1,2]'],
    'm={"a":"b=\\"c\\",d","e":1}': ['m={"a":"b=\\"c\\",d","e":1}'],
    'q=say "hi", twice': ['q=say "hi", twice'],
    'open="x': ['open="x'],
    'empty=': ['empty='],
    'end=1,': ['end=1,'],
  };
  for (const [text, pairs] of Object.entries(cases)) assert.deepEqual(splitPairs(text), pairs, text);
});

test('prefers a flag to the environment, and the environment to the default', () => {
  assert.equal(parse([], { X_NAME: 'env' }).flags['name'], 'env');
  assert.equal(parse(['--name='], { X_NAME: 'env' }).flags['name'], '');
  assert.deepEqual(parse([], { X_TAGS: 'a,b' }).flags['tag'], ['a', 'b']);
  assert.equal(parse([]).flags['size'], 3);
  assert.equal(parse([]).isSet('size'), false);
  assert.equal(parse([], { X_NAME: 'env' }).isSet('name'), true);
  assert.deepEqual(parse([], { X_NAME: 'env' }).texts, {});
});

test('names the flag that is wrong', () => {
  const cases: [string[], RegExp][] = [
    [['--nope'], /Unknown flag: --nope/],
    [['-yx'], /Unknown flag: -x in -yx/],
    [['--name'], /Missing value for flag --name/],
    [['--size', 'x'], /--size: "x" is not a whole number/],
    [['--after', '5 weeks'], /--after: Invalid duration/],
    [['--wait=maybe'], /"maybe" is not one of yes, no/],
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
