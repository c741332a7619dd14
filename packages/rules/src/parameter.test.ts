import assert from 'node:assert/strict';
import { test } from 'node:test';
import { choiceProblem, type ParameterRules, typeProblem, validationProblem } from './parameter.ts';

test('parses numbers, booleans and lists as Go does', () => {
  const good: Record<string, string[]> = {
    number: ['1', '-1', '+1', '0.5', '.5', '1.', '1e3', '1E+3', '1_000', '0x1p4', '0x_fp-2', 'inf', '-Infinity', 'NaN'],
    bool: ['1', 't', 'T', 'true', 'TRUE', 'True', '0', 'f', 'F', 'false', 'FALSE', 'False'],
    'list(string)': ['[]', '["a"]', ' ["a", null] ', 'null'],
    string: ['', 'anything'],
  };
  const bad: Record<string, string[]> = {
    number: ['', ' 1', 'abc', '0x10', '1e', '1e400', '_1', '1__0', '1_', '1_e3', '0b1', '+nan', '１'],
    bool: ['', 'yes', 'tRUE'],
    'list(string)': ['', 'a', '[1]', '{}', '["a"]x'],
  };
  for (const [type, values] of Object.entries(good))
    for (const value of values) assert.equal(typeProblem(type, value), undefined, `${type} ${value}`);
  for (const [type, values] of Object.entries(bad))
    for (const value of values) assert.notEqual(typeProblem(type, value), undefined, `${type} ${value}`);
});

test('applies a validation block and options to every value, even an empty one', () => {
  const rules = (type: string, validation: Partial<NonNullable<ParameterRules['validation']>>): ParameterRules => ({
    type,
    formType: '',
    options: [],
    validation: { monotonic: '', regex: '', error: '', ...validation },
  });
  const number = rules('number', { min: 1, max: 9, monotonic: 'increasing', error: '{value}: {min} to {max}' });
  assert.deepEqual(validationProblem(number, '0'), { problem: '0 is less than the minimum of 1', own: '0: 1 to 9' });
  assert.match(validationProblem(number, '')!.problem, /"" is not a whole number/);
  assert.match(validationProblem(number, '2.5')!.problem, /not a whole number/);
  assert.match(validationProblem(number, '9223372036854775808')!.problem, /not a whole number/);
  assert.match(validationProblem(number, '3', '4')!.problem, /less than before/);
  for (const previous of [undefined, '', 'x', '3']) assert.equal(validationProblem(number, '3', previous), undefined);
  const big = rules('number', { monotonic: 'decreasing' });
  assert.match(validationProblem(big, '9007199254740993', '9007199254740992')!.problem, /more than before/);
  assert.match(validationProblem(rules('string', { regex: '^a+$' }), '')!.problem, /does not match/);
  assert.match(validationProblem(rules('string', { regex: '(?=a)' }), 'a')!.problem, /unsupported/);
  assert.match(validationProblem(rules('bool', {}), 'True')!.problem, /neither true nor false/);

  const choice = (type: string, formType: string, value: string) =>
    choiceProblem({ type, formType, options: ['a', 'b'] }, value);
  assert.equal(choice('string', 'radio', 'a'), undefined);
  assert.match(choice('string', 'radio', '')!, /must be one of "a", "b", not ""/);
  assert.equal(choice('list(string)', 'multi-select', '["b"]'), undefined);
  assert.match(choice('list(string)', 'multi-select', '["b","c"]')!, /not "c"/);
  assert.match(choice('list(string)', 'multi-select', 'b')!, /not a JSON list/);
});

test('validates long numbers in linear time', () => {
  const started = performance.now();
  for (const value of [`${'1'.repeat(100_000)}x`, `0x${'a'.repeat(100_000)}x`, `${'1_'.repeat(50_000)}x`])
    assert.match(typeProblem('number', value)!, /is not a number/);
  assert.ok(performance.now() - started < 10_000);
});

test("uses the author's message only for the rule that it is about", () => {
  const own = (
    rule: { min?: number; max?: number; monotonic?: string; error?: string },
    value: string,
    before?: string,
  ) =>
    validationProblem(
      {
        type: 'number',
        formType: '',
        options: [],
        validation: { monotonic: '', regex: '', error: '{value} is not between {min} and {max}', ...rule },
      },
      value,
      before,
    );
  assert.deepEqual(own({ monotonic: 'increasing' }, '2', '3'), { problem: '2 is less than before (3)', own: '' });
  assert.equal(own({ min: 1, max: 9, monotonic: 'increasing' }, '2', '3')?.own, '');
  assert.equal(own({ min: 1, max: 9, monotonic: 'increasing' }, '0', '3')?.own, '0 is not between 1 and 9');
  assert.equal(own({ min: 1 }, '0')?.own, '', 'there is no maximum');
  assert.equal(own({ monotonic: 'increasing', error: '{value}: never shrink' }, '2', '3')?.own, '2: never shrink');
});
