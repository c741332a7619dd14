import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TemplateVersionParameter } from '@ropewalk/contract';
import { checkValue } from './parameters.ts';

const parameter = (validation_regex: string) =>
  ({ name: 'p', type: 'string', validation_regex, validation_error: '' }) as TemplateVersionParameter;

test('validates a value against the regular expression of its template in linear time', async () => {
  const started = performance.now();
  assert.match((await checkValue(parameter('^(a+)+$'), `${'a'.repeat(100)}!`))!, /must match/);
  assert.equal(await checkValue(parameter('^[[:alpha:]]+$'), 'abc'), undefined);
  assert.match((await checkValue(parameter('^[[:alpha:]]+$'), '123'))!, /must match/);
  assert.ok(performance.now() - started < 20_000);
});
