import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Nothing, type RouteDef, type RouteKey, routes } from '@ropewalk/contract';
import { Ajv } from 'ajv';
import fastJsonStringify from 'fast-json-stringify';
import { serializerCompiler, validatorCompiler } from './validate.ts';

// The server compiles a route's schemas with its first request, so a wrong schema does not end its start.

const validator = (schema: object, httpPart: string) =>
  validatorCompiler({ schema, httpPart, method: '', url: '' }) as (value: unknown) => true | { error: Error };

const schemas = (Object.entries(routes) as [RouteKey, RouteDef][]).flatMap(([key, def]) => [
  ...(def.body ? [{ what: `${key}, body`, schema: def.body as object, part: 'body' }] : []),
  ...(def.query ? [{ what: `${key}, query`, schema: def.query as object, part: 'querystring' }] : []),
  ...(def.params ? [{ what: `${key}, params`, schema: def.params as object, part: 'params' }] : []),
  ...Object.entries(def.responses).flatMap(([status, schema]) =>
    schema === Nothing || def.stream ? [] : [{ what: `${key}, ${status}`, schema: schema as object, part: 'response' }],
  ),
]);

test('the schemas of all routes are valid JSON Schema and compile', () => {
  assert.ok(schemas.length > 400, `${schemas.length} schemas`);
  const ajv = new Ajv();
  const wrong: string[] = [];
  for (const { what, schema, part } of schemas) {
    if (!ajv.validateSchema(schema)) wrong.push(`${what}: ${ajv.errorsText()}`);
    try {
      if (part === 'response') fastJsonStringify(schema);
      else validator(schema, part)(undefined);
    } catch (err) {
      wrong.push(`${what}: ${err}`);
    }
  }
  assert.deepEqual(wrong, []);
});

test('compiles a schema with the first value', () => {
  const wrong = { type: 'nonsense' };
  const validate = validator(wrong, 'body');
  const write = serializerCompiler({ schema: wrong });
  assert.throws(() => validate('x'), /nonsense|type/);
  assert.throws(() => write('x'), /nonsense|type/);
});
