import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TemplateParameterUsage } from '@ropewalk/contract';
import { valueUsage } from './parameter-usage.ts';

const usage = (more: Partial<TemplateParameterUsage>): TemplateParameterUsage => ({
  name: 'region',
  display_name: 'Region',
  description: '',
  type: 'string',
  template_ids: [],
  values: [],
  ...more,
});
const rows = (of: TemplateParameterUsage) => valueUsage(of).map(({ name, count, percent }) => [name, count, percent]);

test('shows the most frequent values first, by the names of their options', () => {
  const options = [{ name: 'Frankfurt', value: 'eu', description: '', icon: '' }];
  const values = [
    { value: 'us', count: 1 },
    { value: 'eu', count: 2 },
    { value: '', count: 1 },
  ];
  assert.deepEqual(rows(usage({ options, values })), [
    ['Frankfurt', 2, 50],
    ['', 1, 25],
    ['us', 1, 25],
  ]);
});

test('counts each value of a list for itself', () => {
  const values = [
    { value: '["go","node"]', count: 3 },
    { value: '["go"]', count: 1 },
    { value: '[]', count: 1 },
    { value: 'none', count: 1 },
  ];
  assert.deepEqual(rows(usage({ type: 'list(string)', values })), [
    ['go', 4, 67],
    ['node', 3, 50],
    ['', 1, 17],
    ['none', 1, 17],
  ]);
});

test('adds up the rarer values', () => {
  const values = Array.from({ length: 11 }, (_, i) => ({ value: `v${i}`, count: 11 - i }));
  const found = rows(usage({ values }));
  assert.equal(found.length, 9);
  assert.deepEqual(found.at(-1), [undefined, 3 + 2 + 1, 9]);
  assert.equal(rows(usage({ values: values.slice(0, 9) })).at(-1)![0], 'v8');
});
