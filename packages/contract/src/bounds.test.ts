import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type RouteDef, routes } from './index.ts';

type Json = Record<string, unknown>;

/** Texts of these formats have an inherent length limit. */
const BOUNDED_FORMATS = new Set(['uuid', 'date-time']);

/** Returns the parts of a schema that accept values without a limit, by path. */
function unbounded(schema: unknown, path = ''): string[] {
  if (schema === null || typeof schema !== 'object') return [];
  const node = schema as Json;
  const found: string[] = [];
  const need = (...names: string[]) => {
    const missing = names.filter((name) => typeof node[name] !== 'number');
    if (missing.length > 0) found.push(`${path || '(body)'}: ${missing.join(', ')}`);
  };
  const alternatives = ['anyOf', 'oneOf', 'allOf'].flatMap((key) => (node[key] as unknown[] | undefined) ?? []);
  for (const alternative of alternatives) found.push(...unbounded(alternative, path));
  if (node['enum'] !== undefined || 'const' in node) return found;
  switch (node['type']) {
    case 'string':
      if (!BOUNDED_FORMATS.has(node['format'] as string)) need('maxLength');
      break;
    case 'integer':
    case 'number':
      need('minimum', 'maximum');
      break;
    case 'array':
      need('maxItems');
      break;
    case 'object': {
      const open = Object.entries((node['patternProperties'] as Json | undefined) ?? {});
      if (open.length > 0 || typeof node['additionalProperties'] === 'object') need('maxProperties');
      for (const [, value] of open) found.push(...unbounded(value, `${path}{}`));
      found.push(...unbounded(node['additionalProperties'], `${path}{}`));
      for (const [name, value] of Object.entries((node['properties'] as Json | undefined) ?? {})) {
        found.push(...unbounded(value, `${path}.${name}`));
      }
      break;
    }
    case 'boolean':
    case 'null':
      break;
    default:
      if (alternatives.length === 0) found.push(`${path || '(body)'}: takes any value`);
  }
  found.push(...unbounded(node['items'], `${path}[]`));
  return found;
}

// The server limits the request line, and with it path and query, to a few kilobytes.
test('every text, list, record and number of a request body has a limit', () => {
  const found = Object.entries(routes as Record<string, RouteDef>).flatMap(([key, { body }]) =>
    unbounded(body).map((part) => `${key} ${part}`),
  );
  assert.deepEqual(found, []);
});

test('finds a part without a limit', () => {
  const text = { type: 'string' };
  assert.deepEqual(
    unbounded({
      type: 'object',
      properties: {
        name: text,
        list: { type: 'array', items: { type: 'integer', minimum: 0 } },
        either: { anyOf: [{ type: 'string', maxLength: 1 }, text] },
        map: { type: 'object', patternProperties: { '^.*$': text } },
        any: {},
      },
    }),
    [
      '.name: maxLength',
      '.list: maxItems',
      '.list[]: maximum',
      '.either: maxLength',
      '.map: maxProperties',
      '.map{}: maxLength',
      '.any: takes any value',
    ],
  );
});
