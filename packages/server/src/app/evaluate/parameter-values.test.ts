import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ParameterRow } from '../../db/queries/version-contents.ts';
import type { NameValue } from './parameter-values.ts';
import { judgeValues } from './parameter-values.ts';

const resolve = (row: ParameterRow, given: NameValue[], last: NameValue[] | undefined) =>
  judgeValues({ parameters: [row], given, preset: {}, last, trustLast: false, onlyGiven: false });

const parameter = (row: Partial<ParameterRow>): ParameterRow => ({
  name: 'p',
  display_name: '',
  description: '',
  type: 'string',
  form_type: '',
  mutable: true,
  ephemeral: false,
  required: false,
  default_value: '',
  icon: '',
  options: [],
  validation_regex: '',
  validation_min: null,
  validation_max: null,
  validation_monotonic: '',
  validation_error: '',
  display_order: 0,
  ...row,
});
const option = (value: string) => ({ name: value, description: '', value, icon: '' });

test('a parameter may have the name of a property of every object', () => {
  for (const name of ['__proto__', 'constructor', 'toString']) {
    const row = parameter({ name, default_value: 'a' });
    assert.deepEqual(resolve(row, [], undefined), [{ name, value: 'a' }]);
    assert.deepEqual(resolve(row, [{ name, value: 'b' }], undefined), [{ name, value: 'b' }]);
  }
});

test('a build accepts the values of the previous build, in every notation that the template uses', () => {
  const rows = [
    ...['true', 'True', 'TRUE', 't', 'T', '1', 'false', 'False', 'f', '0'].map((default_value) =>
      parameter({ type: 'bool', default_value }),
    ),
    parameter({ type: 'bool', default_value: '1', options: [option('1'), option('0')] }),
    ...['0.5', '1e3', '+1', '1_000', '1.', 'inf'].map((default_value) => parameter({ type: 'number', default_value })),
    parameter({ type: 'number', default_value: '1.0', options: [option('1.0'), option('2')] }),
    ...['[]', 'null', '["a",null]'].map((default_value) => parameter({ type: 'list(string)', default_value })),
    parameter({ default_value: '', options: [option(''), option('b')] }),
  ];
  for (const row of rows) {
    const first = resolve(row, [], undefined);
    assert.deepEqual(first, [{ name: 'p', value: row.default_value }]);
    assert.deepEqual(resolve(row, [], [...first]), first, `${row.type} ${row.default_value}`);
    assert.deepEqual(resolve(row, [...first], undefined), first, 'a person may also enter it');
  }
  const bool = parameter({ type: 'bool', default_value: 'true' });
  for (const value of ['', 'yes', 'tRUE', 'on'])
    assert.throws(() => resolve(bool, [{ name: 'p', value }], undefined), /neither true nor false/);
});
