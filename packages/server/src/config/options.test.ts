import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { DeploymentOptionGroup } from '@ropewalk/contract';
import { upstreamNewerServerOptions, upstreamServerOptions } from '@ropewalk/contract/upstream/facts';
import { optionsPage } from './docs.ts';
import { LEFT_OUT, LEFT_OUT_KEYS } from './left-out.ts';
import { loadConfig } from './load.ts';
import type { OptionRow } from './option.ts';
import type { OptionName } from './options/rows.ts';
import { type Config, options } from './options.ts';
import { deploymentConfig } from './values.ts';

const rows = Object.entries(options) as [OptionName, OptionRow][];

test('every default is a valid value of its option', () => {
  const { config, sources } = loadConfig({ env: {} });
  for (const [name, row] of rows) {
    assert.notEqual(config[name], undefined, name);
    assert.equal(sources[name], row.default === undefined ? '' : 'default', name);
  }
});

test('no two options share a flag, a variable, a YAML key or a path in the deployment configuration', () => {
  for (const key of ['flag', 'env', 'yaml', 'json', 'short'] as const) {
    const texts = rows.flatMap(([, row]) => row[key] ?? []);
    assert.deepEqual(
      texts.filter((text, i) => texts.indexOf(text) !== i),
      [],
      key,
    );
  }
});

test('secret values are blank in the deployment configuration, whatever their type', () => {
  const { config } = loadConfig({ env: {} });
  const secrets = rows.filter(([, row]) => row.secret);
  assert.ok(secrets.length >= 9);
  const filled = { ...config } as Record<string, unknown>;
  for (const [name, row] of secrets) filled[name] = row.type === 'string[]' ? ['canary'] : 'canary';
  assert.ok(!JSON.stringify(deploymentConfig(filled as Config)).includes('canary'));
});

test('the options page matches the table', () => {
  const path = join(import.meta.dirname, '../../../../docs/reference/server-options.md');
  assert.equal(readFileSync(path, 'utf8'), optionsPage(), 'stale: run node packages/server/src/config/write-docs.ts');
});

test('every upstream option keeps its variable and its YAML key', () => {
  const byFlag = new Map<string, OptionRow>(rows.map(([, row]) => [row.flag ?? '', row]));
  const missing: string[] = [];
  for (const { flag, env, yaml } of upstreamServerOptions()) {
    // these two belong to the command, not to the server
    if (flag === 'config' || flag === 'write-config') continue;
    const ours = byFlag.get(flag);
    if (!ours) missing.push(flag);
    else assert.deepEqual([ours.env, ours.yaml ?? ''], [env, yaml], flag);
  }
  assert.deepEqual(missing, []);
});

test('every newer upstream option exists, or is left out with a reason, and files may have its key', () => {
  const byFlag = new Map<string, OptionRow>(rows.map(([, row]) => [row.flag ?? '', row]));
  const dir = mkdtempSync(join(tmpdir(), 'options-'));
  try {
    for (const { flag, env, yaml } of upstreamNewerServerOptions()) {
      if (flag === 'write-config') continue;
      const ours = byFlag.get(flag);
      const reason = LEFT_OUT.find(([flags]) => flags.test(flag));
      assert.ok(ours || reason, `build it, or give a reason in LEFT_OUT: ${flag}`);
      if (ours) assert.deepEqual([ours.env, ours.yaml], [env, yaml], flag);
      if (ours || yaml === undefined) continue;
      const file = join(dir, 'config.yaml');
      const keys = yaml.split('.');
      writeFileSync(file, `${keys.map((key, depth) => `${'  '.repeat(depth)}${key}:`).join('\n')} 1\n`);
      loadConfig({ env: {}, yamlPath: file });
    }
    assert.ok(LEFT_OUT_KEYS.every((key) => !rows.some(([, { yaml }]) => yaml?.startsWith(key))));
  } finally {
    rmSync(dir, { recursive: true });
  }
});

test('every upstream option has its name, group, annotations and form of value in the deployment configuration', () => {
  const { config } = loadConfig({ env: {} });
  const byFlag = new Map(deploymentConfig(config).options.map((option) => [option.flag, option]));
  const path = ({ name, parent }: DeploymentOptionGroup): string => (parent ? `${path(parent)} / ${name}` : name);
  let compared = 0;
  for (const { flag, name, group, choices, annotations = [] } of upstreamServerOptions()) {
    const ours = byFlag.get(flag);
    if (!ours) continue;
    compared += 1;
    assert.equal(ours.name, name, flag);
    // upstream marks dangers with a sign
    if (group) assert.equal(path(ours.group), group.replace('⚠️ ', ''), flag);
    for (const annotation of annotations) assert.equal(ours.annotations[annotation], 'true', `${flag} ${annotation}`);
    const { Choices: shown } = (ours.value ?? {}) as { Choices?: string[] };
    assert.equal(shown === undefined, choices === undefined, flag);
    for (const choice of choices ?? []) assert.ok(shown!.includes(choice), `${flag} ${choice}`);
  }
  assert.ok(compared > 150, `${compared}`);
});
