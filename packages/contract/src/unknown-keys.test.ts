import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type RouteDef, routes } from './index.ts';
import { unknownKeysPage } from './unknown-keys-page.ts';
import { upstreamBodyKeys } from './upstream/facts.ts';

const all = Object.entries(routes) as [string, RouteDef][];

test('every route with a body declares what happens to keys that it does not have', () => {
  // also a compile error. Node.js runs the source without checking types
  assert.deepEqual(
    all.filter(([, { body, unknownKeys }]) => body && !unknownKeys).map(([key]) => key),
    [],
  );
});

test('lists what each route does', () => {
  const path = join(import.meta.dirname, '../../../docs/reference/unknown-keys.md');
  assert.equal(readFileSync(path, 'utf8'), unknownKeysPage(), 'stale: run node packages/contract/src/write-docs.ts');
});

interface Schema {
  properties?: Record<string, Schema>;
  patternProperties?: object;
  items?: Schema;
}

/** Whether a schema has a field, in any case of letters. Names are joined with dots. The keys of maps are data. */
function has(schema: Schema | undefined, name: string): boolean {
  if (!schema) return false;
  if (schema.items) return has(schema.items, name);
  if (schema.patternProperties) return true;
  const [first, ...rest] = name.split('.');
  const field = Object.keys(schema.properties ?? {}).find((one) => one.toLowerCase() === first!.toLowerCase());
  return field !== undefined && (rest.length === 0 || has(schema.properties![field], rest.join('.')));
}

test('judges every key that a client of upstream sends and a route does not have', () => {
  const byRoute = new Map(all.map(([key, def]) => [key.replaceAll(/\{[^}]*\}/g, '{}'), def]));
  const judged = new Set<string>();
  const open = Object.entries(upstreamBodyKeys()).flatMap(([key, names]) => {
    const def = byRoute.get(key);
    assert.ok(def, `the contract has no ${key}`);
    const foreign = names.filter((name) => !has(def.body as Schema | undefined, name));
    return foreign
      .filter((name) => !foreign.some((outer) => name.startsWith(`${outer}.`)))
      .filter((name) => judged.add(`${key} ${name}`) && !def.unknownKeys?.foreign.has(name))
      .map((name) => `${key} ${name}`);
  });
  assert.deepEqual(open, []);
  const declared = [...byRoute].flatMap(([key, { unknownKeys }]) =>
    [...(unknownKeys?.foreign.keys() ?? [])].map((name) => `${key} ${name}`),
  );
  assert.deepEqual(
    declared.sort(),
    [...judged].sort(),
    'a key is declared that no client sends, or that the route has',
  );
});
