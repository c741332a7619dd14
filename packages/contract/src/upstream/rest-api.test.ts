import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openApiDocument } from '../openapi.ts';
import {
  ELSEWHERE,
  MISDOCUMENTED,
  MISSING_FEATURES,
  REST_VERSIONS,
  type UpstreamOperation,
  type UpstreamRest,
  upstreamRest,
} from './facts.ts';

type Json = Record<string, unknown>;

interface Shape {
  types: string[];
  properties: Record<string, unknown> | undefined;
  items: unknown;
  /** Of a map: the schema of its values. */
  values: unknown;
}

const ours = openApiDocument('v0.0.0') as { paths: Record<string, Record<string, Json>> };

/** Normalizes a path: different spellings of the same path give the same text. */
const pathKey = (path: string) => path.replaceAll(/\{[^}]+\}/g, '{}').replace(/\/$/, '') || '/';
const ourOperations = new Map(
  Object.entries(ours.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => [`${method} ${pathKey(path)}`, operation] as const),
  ),
);
const operationsOf = (rest: UpstreamRest) =>
  Object.entries(rest.paths).flatMap(([path, methods]) =>
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

/** Compares schemas, and counts the fields that it has compared. */
class Comparison {
  readonly #rest: UpstreamRest;
  fields = 0;

  constructor(rest: UpstreamRest) {
    this.#rest = rest;
  }

  /** Returns the fields of `want` that are missing in `have` or have another type, by path. */
  differences(want: unknown, have: unknown, at = '', seen: readonly string[] = []): string[] {
    const wanted = shapeOf(this.#rest, want);
    const found = shapeOf(ours, have);
    if (!wanted) return [];
    if (wanted.items)
      return found?.items ? this.differences(wanted.items, found.items, `${at}[]`, seen) : [`${at}: no list`];
    if (wanted.values && found?.values) return this.differences(wanted.values, found.values, `${at}{}`, seen);
    const name = (want as Json)['$ref'] as string | undefined;
    if (!wanted.properties || (name && seen.includes(name))) return [];
    return Object.entries(wanted.properties).flatMap(([key, schema]) => {
      this.fields++;
      const path = `${at}.${key}`;
      const mine = found?.properties?.[key];
      if (mine === undefined) return [`${path}: missing`];
      const types = shapeOf(ours, mine)!.types.map(numeric);
      const type = shapeOf(this.#rest, schema)?.types.map(numeric)[0];
      if (type && types.length > 0 && !types.includes(type)) return [`${path}: ${types.join(' or ')}, not ${type}`];
      return this.differences(schema, mine, path, name ? [...seen, name] : seen);
    });
  }

  ofRoute(operation: UpstreamOperation, mine: Json): string[] {
    const found: string[] = [];
    const [status, answer] = Object.entries(operation.responses).find(([code]) => code.startsWith('2')) ?? [];
    if (answer && Object.keys(answer).length > 0) {
      const responses = mine['responses'] as Json;
      const answers = responses[status!] ?? Object.entries(responses).find(([code]) => code.startsWith('2'))?.[1];
      found.push(...this.differences(answer, jsonSchema(answers), 'response'));
    }
    const body = operation.parameters.find((parameter) => parameter.in === 'body');
    if (body) found.push(...this.differences(body.schema, jsonSchema(mine['requestBody']), 'request'));
    return found;
  }
}

const jsonSchema = (part: unknown): unknown =>
  ((part as Json | undefined)?.['content'] as Json | undefined)?.['application/json'] &&
  (((part as Json)['content'] as Json)['application/json'] as Json)['schema'];

/** What the routes that upstream documents too lack, and the number of fields that were compared. */
function compared(version: (typeof REST_VERSIONS)[number]): { wrong: string[]; fields: number } {
  const rest = upstreamRest(version);
  const comparison = new Comparison(rest);
  const wrong: string[] = [];
  let routes = 0;
  for (const { path, method, operation } of operationsOf(rest)) {
    const mine = find(method, path);
    const name = `${method.toUpperCase()} ${path}`;
    if (!mine || name in MISDOCUMENTED) continue;
    routes += 1;
    wrong.push(...comparison.ofRoute(operation, mine).map((difference) => `${name}: ${difference}`));
  }
  assert.ok(routes > 140, `${routes}`);
  return { wrong, fields: comparison.fields };
}

/** Compares a list with the one in a file, which UPDATE_GOLDEN writes. */
function holdsList(name: string, lines: readonly string[]): void {
  const file = join(import.meta.dirname, name);
  const text = lines.map((line) => `${line}\n`).join('');
  if (process.env['UPDATE_GOLDEN']) writeFileSync(file, text);
  assert.equal(text, readFileSync(file, 'utf8'), 'update it with: npm run generate');
}

test('every route that upstream 2.25 documents too has all of its fields', () => {
  assert.deepEqual(compared('2.25').wrong, []);
});

test('at least 97 % of the fields that upstream 2.36 documents exist, and missing-fields.txt lists the others', () => {
  const { wrong, fields } = compared('2.36');
  assert.ok(fields > 5_000, `${fields}`);
  assert.ok(wrong.length <= fields * 0.03, `${wrong.length} of ${fields} fields are missing`);
  holdsList('missing-fields.txt', wrong.sort());
});

test('missing-routes.txt lists the routes of upstream that are missing here, and why', () => {
  const missing = REST_VERSIONS.flatMap((version) => operationsOf(upstreamRest(version)))
    .filter(({ path, method }) => !find(method, path) && !ELSEWHERE.test(path))
    .map(({ path, method }) => {
      const [, why] = MISSING_FEATURES.find(([paths]) => paths.test(path)) ?? [];
      assert.ok(why, `${method} ${path} is missing without a reason`);
      return `${why}: ${method.toUpperCase()} ${path}`;
    });
  holdsList('missing-routes.txt', [...new Set(missing)].sort());
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
  assert.deepEqual(new Comparison(upstreamRest()).differences(want, have), [
    '.a: number, not string',
    '.b: missing',
    '.c[].d: missing',
    '.e{}.f: missing',
  ]);
});
