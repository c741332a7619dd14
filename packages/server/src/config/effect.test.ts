import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { EFFECTIVE, givenWithoutEffect } from './effect.ts';
import { loadConfig } from './load.ts';
import type { OptionName } from './options.ts';
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
  assert.deepEqual(unproven, [], 'observe it in http/options-effect.test.ts, or leave it out of EFFECTIVE');
});

/** Read to be stored and shown, without a further effect. */
const SHOWN: ReadonlySet<OptionName> = new Set<OptionName>([
  'allowCustomQuietHours',
  'defaultQuietHoursSchedule',
  'derpForceWebsockets',
  'experiments',
  'oidcIconUrl',
  'oidcSignInText',
]);

test('an option that the program reads is listed as effective or as shown, and no other is', () => {
  const text = ['server/src/**/*.ts', 'cli/src/commands/daemons/*.ts']
    .flatMap((pattern) => texts(pattern, /\.test\.ts$|config\/(values|options|docs|effect)/))
    .join('\n');
  const read = (name: string) =>
    new RegExp(`\\bconfig\\.${name}\\b|\\{[^}]*\\b${name}\\b[^}]*\\} = (ctx|services)?\\.?config\\b`).test(text);
  for (const name of Object.keys(options) as OptionName[]) {
    assert.equal(EFFECTIVE.has(name) || SHOWN.has(name), read(name), name);
    assert.ok(!(EFFECTIVE.has(name) && SHOWN.has(name)), name);
  }
});

test('what was given without effect is named, and TLS is not silently left out', () => {
  const load = (env: NodeJS.ProcessEnv) => givenWithoutEffect(loadConfig({ env }));
  assert.deepEqual(load({ CODER_HTTP_ADDRESS: '127.0.0.1:0' }), []);
  assert.deepEqual(load({ CODER_OIDC_ISSUER_URL: 'https://issuer.example' }), ['oidcIssuerUrl']);
  assert.throws(() => load({ CODER_TLS_ENABLE: 'true' }), /TLS proxy/);
});

test('what makes an installation safer is heeded or refused, unless there is nothing that it would make safer', () => {
  const load = (env: NodeJS.ProcessEnv) => givenWithoutEffect(loadConfig({ env }));
  assert.throws(
    () => load({ CODER_DISABLE_OWNER_WORKSPACE_ACCESS: 'true' }),
    /leave --disable-owner-workspace-access out\.$/,
  );
  assert.deepEqual(load({ CODER_DISABLE_OWNER_WORKSPACE_ACCESS: 'false' }), ['disableOwnerWorkspaceAccess']);
  assert.deepEqual(load({ CODER_BROWSER_ONLY: 'true' }), []);
  assert.deepEqual(load({ CODER_EXTERNAL_TOKEN_ENCRYPTION_KEYS: 'a2V5' }), ['externalTokenEncryptionKeys']);
});

test('the help says of an option that it changes nothing, or is refused', () => {
  const note = (name: OptionName) => /\(([^()]*)\)$/.exec(options[name].description)?.[1];
  assert.equal(note('oidcIssuerUrl'), 'no effect yet');
  assert.equal(note('experiments'), 'no effect yet');
  assert.equal(note('externalTokenEncryptionKeys'), 'no effect yet');
  assert.equal(note('tlsEnable'), 'refused: not there yet');
  assert.equal(note('disableOwnerWorkspaceAccess'), 'refused: not there yet');
  for (const name of EFFECTIVE) assert.doesNotMatch(options[name].description, /no effect yet|not there yet/, name);
});
