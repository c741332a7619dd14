import assert from 'node:assert/strict';
import { test } from 'node:test';
import { upstreamRest } from '@ropewalk/contract/upstream/facts';
import { Ajv } from 'ajv';
import { assertUpstreamShape } from './facts.ts';

test("upstream's schemas are valid JSON Schema", () => {
  const { definitions, paths } = upstreamRest();
  const ajv = new Ajv({ strict: false });
  assert.ok(ajv.validateSchema({ definitions }), ajv.errorsText());
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, { responses }] of Object.entries(methods)) {
      for (const schema of Object.values(responses)) {
        assert.ok(ajv.validateSchema(schema), `${method} ${path}: ${ajv.errorsText()}`);
      }
    }
  }
});

test('rejects an answer of another shape, and accepts null for an absent field', () => {
  assertUpstreamShape('GET /users/{user}/roles', 200, { roles: ['owner'], organization_roles: null });
  assert.throws(
    () => assertUpstreamShape('GET /users/{user}/keys/{keyid}', 200, { id: 7 }),
    /GET \/users\/\{user\}\/keys\/\{keyid\} does not have the shape that upstream documents: .*\/id must be string/,
  );
});
