import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { dataSources, resources } from './registry.ts';

const folders = (kind: string) =>
  readdirSync(new URL(kind, import.meta.url)).map((name) => `coder_${name.replaceAll('-', '_')}`);

test('the registry matches the folders', async () => {
  assert.deepEqual(folders('resources').sort(), Object.keys(resources).sort());
  assert.deepEqual(folders('data-sources').sort(), Object.keys(dataSources).sort());
  for (const [name, type] of Object.entries(resources)) {
    const folder = name.slice('coder_'.length).replaceAll('_', '-');
    const module = (await import(`./resources/${folder}/index.ts`)) as { resource: unknown };
    assert.equal(module.resource, type, name);
  }
  for (const [name, type] of Object.entries(dataSources)) {
    const folder = name.slice('coder_'.length).replaceAll('_', '-');
    const module = (await import(`./data-sources/${folder}/index.ts`)) as { dataSource: unknown };
    assert.equal(module.dataSource, type, name);
  }
});
