import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { EFFECTIVE, givenWithoutEffect } from './effect.ts';
import { loadConfig } from './load.ts';
import type { OptionName } from './options/rows.ts';
import { options } from './options.ts';

const root = join(import.meta.dirname, '../../..');
const texts = (pattern: string, without: RegExp) =>
  globSync(pattern, { cwd: root })
    .filter((file) => !without.test(file))
    .map((file) => readFileSync(join(root, file), 'utf8'));

test('a test sets each effective option and observes the effect', () => {
  const tests = ['*/src/**/*.test.ts', '../e2e/**/*.test.ts'].flatMap((pattern) => texts(pattern, /src\/config\//));
  const all = new Set(tests.flatMap((text) => text.match(/\bCODER_\w+/g) ?? []));
  const unproven = [...EFFECTIVE].filter((name) => !all.has(options[name].env));
  assert.deepEqual(unproven, [], 'test it in http/options-effect.test.ts, or remove it from EFFECTIVE');
});

/** Options that the server only stores and shows. */
const SHOWN: ReadonlySet<OptionName> = new Set<OptionName>(['experiments']);

test('lists exactly the options that the program reads as effective or as shown', () => {
  const text = ['server/src/**/*.ts', 'cli/src/commands/daemons/**/*.ts']
    .flatMap((pattern) => texts(pattern, /\.test\.ts$|config\/(values|options|docs|effect)/))
    .join('\n');
  const read = (name: string) =>
    new RegExp(`\\bconfig\\.${name}\\b|\\{[^}]*\\b${name}\\b[^}]*\\} = (ctx|services)?\\.?config\\b`).test(text);
  for (const name of Object.keys(options) as OptionName[]) {
    assert.equal(EFFECTIVE.has(name) || SHOWN.has(name), read(name), name);
    assert.ok(!(EFFECTIVE.has(name) && SHOWN.has(name)), name);
  }
});

test('reports options without effect', () => {
  const load = (env: NodeJS.ProcessEnv) => givenWithoutEffect(loadConfig({ env }));
  assert.deepEqual(load({ CODER_HTTP_ADDRESS: '127.0.0.1:0' }), []);
  assert.deepEqual(load({ CODER_TELEMETRY_ENABLE: 'true' }), ['telemetry']);
});

test('applies or rejects every option for safety, unless it has nothing to protect', () => {
  const load = (env: NodeJS.ProcessEnv) => givenWithoutEffect(loadConfig({ env }));
  assert.deepEqual(load({ CODER_DISABLE_OWNER_WORKSPACE_ACCESS: 'true' }), []);
  assert.deepEqual(load({ CODER_BROWSER_ONLY: 'true' }), []);
  assert.deepEqual(load({ CODER_EXTERNAL_TOKEN_ENCRYPTION_KEYS: 'a2V5' }), []);
});

test('the help marks options that have no effect', () => {
  assert.match(options.telemetry.description, / Ignored: this server never reports usage\.$/);
  for (const name of EFFECTIVE) assert.doesNotMatch(options[name].description, /no effect yet|Ignored:/, name);
});
