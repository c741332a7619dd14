import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openApiDocument } from '../openapi.ts';
import { ELSEWHERE, MISDOCUMENTED, type UpstreamOperation, upstreamRest } from './facts.ts';

type Json = Record<string, unknown>;

interface Shape {
  types: string[];
  properties: Record<string, unknown> | undefined;
  items: unknown;
  /** Of a map: the schema of its values. */
  values: unknown;
}

const rest = upstreamRest();
const ours = openApiDocument('v0.0.0') as { paths: Record<string, Record<string, Json>> };

/** Normalizes a path: different spellings of the same path give the same text. */
const pathKey = (path: string) => path.replaceAll(/\{[^}]+\}/g, '{}').replace(/\/$/, '') || '/';
const ourOperations = new Map(
  Object.entries(ours.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => [`${method} ${pathKey(path)}`, operation] as const),
  ),
);
const upstreamOperations = Object.entries(rest.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
);
const find = (method: string, path: string) => ourOperations.get(`${method} ${pathKey(path)}`);

function resolve(document: object, schema: unknown): Json | undefined {
  let at = schema as Json | undefined;
  while (typeof at?.['$ref'] === 'string') {
    at = at['$ref']
      .slice(2)
      .split('/')
      .reduce<unknown>((node, key) => (node as Json)[key], document) as Json;
  }
  return at;
}

/** Returns types, properties and items of a schema, including its alternatives. */
function shapeOf(document: object, schema: unknown): Shape | undefined {
  const node = resolve(document, schema);
  if (!node) return undefined;
  const shape: Shape = {
    types: [node['type'] ?? []].flat().filter((type) => type !== 'null') as string[],
    properties: node['properties'] ? { ...(node['properties'] as Json) } : undefined,
    items: node['items'],
    values: Object.values((node['patternProperties'] as Json | undefined) ?? {})[0] ?? node['additionalProperties'],
  };
  for (const part of ['allOf', 'anyOf', 'oneOf'].flatMap((key) => (node[key] as unknown[] | undefined) ?? [])) {
    const inner = shapeOf(document, part);
    if (!inner) continue;
    shape.types.push(...inner.types);
    shape.items ??= inner.items;
    shape.values ??= inner.values;
    if (inner.properties) shape.properties = { ...shape.properties, ...inner.properties };
  }
  return shape;
}

const numeric = (type: string) => (type === 'integer' ? 'number' : type);

/** Returns the fields of `want` that are missing in `have` or have another type, by path. */
function differences(want: unknown, have: unknown, at = '', seen: readonly string[] = []): string[] {
  const wanted = shapeOf(rest, want);
  const found = shapeOf(ours, have);
  if (!wanted) return [];
  if (wanted.items) return found?.items ? differences(wanted.items, found.items, `${at}[]`, seen) : [`${at}: no list`];
  if (wanted.values && found?.values) return differences(wanted.values, found.values, `${at}{}`, seen);
  const name = (want as Json)['$ref'] as string | undefined;
  if (!wanted.properties || (name && seen.includes(name))) return [];
  return Object.entries(wanted.properties).flatMap(([key, schema]) => {
    const path = `${at}.${key}`;
    const mine = found?.properties?.[key];
    if (mine === undefined) return [`${path}: missing`];
    const types = shapeOf(ours, mine)!.types.map(numeric);
    const type = shapeOf(rest, schema)?.types.map(numeric)[0];
    if (type && types.length > 0 && !types.includes(type)) return [`${path}: ${types.join(' or ')}, not ${type}`];
    return differences(schema, mine, path, name ? [...seen, name] : seen);
  });
}

const jsonSchema = (part: unknown): unknown =>
  ((part as Json | undefined)?.['content'] as Json | undefined)?.['application/json'] &&
  (((part as Json)['content'] as Json)['application/json'] as Json)['schema'];

function routeDifferences(operation: UpstreamOperation, mine: Json): string[] {
  const found: string[] = [];
  const [status, answer] = Object.entries(operation.responses).find(([code]) => code.startsWith('2')) ?? [];
  if (answer && Object.keys(answer).length > 0) {
    const responses = mine['responses'] as Json;
    const answers = responses[status!] ?? Object.entries(responses).find(([code]) => code.startsWith('2'))?.[1];
    found.push(...differences(answer, jsonSchema(answers), 'response'));
  }
  const body = operation.parameters.find((parameter) => parameter.in === 'body');
  if (body) found.push(...differences(body.schema, jsonSchema(mine['requestBody']), 'request'));
  return found;
}

test('every route that upstream documents too has all of its fields', () => {
  const wrong: string[] = [];
  let compared = 0;
  for (const { path, method, operation } of upstreamOperations) {
    const mine = find(method, path);
    const name = `${method.toUpperCase()} ${path}`;
    if (!mine || name in MISDOCUMENTED) continue;
    compared += 1;
    wrong.push(...routeDifferences(operation, mine).map((difference) => `${name}: ${difference}`));
  }
  assert.ok(compared > 140, `${compared}`);
  assert.deepEqual(wrong, []);
});

test('missing-routes.txt lists the routes of upstream that are missing here', () => {
  const missing = upstreamOperations
    .filter(({ path, method }) => !find(method, path) && !ELSEWHERE.test(path))
    .map(({ path, method, operation }) => `${operation.tag}: ${method.toUpperCase()} ${path}`)
    .sort();
  const file = join(import.meta.dirname, 'missing-routes.txt');
  const text = `${missing.join('\n')}\n`;
  if (process.env['UPDATE_GOLDEN']) writeFileSync(file, text);
  assert.equal(text, readFileSync(file, 'utf8'), 'update it with: npm run generate');
});

test('the comparison reports missing fields and other types', () => {
  const want = {
    properties: {
      a: { type: 'string' },
      b: { type: 'integer' },
      c: { items: { properties: { d: {} } } },
      e: { additionalProperties: { properties: { f: {} } } },
    },
  };
  const have = {
    properties: {
      a: { type: 'number' },
      c: { items: { properties: {} } },
      e: { patternProperties: { '.*': { properties: {} } } },
    },
  };
  assert.deepEqual(differences(want, have), [
    '.a: number, not string',
    '.b: missing',
    '.c[].d: missing',
    '.e{}.f: missing',
  ]);
});
