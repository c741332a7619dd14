import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PreviewParameter } from '@ropewalk/contract';
import { inputsOf, startLive, typed, withAnswer, withPreset } from './live.ts';
import { valuesOf } from './state.ts';

const parameter = (
  name: string,
  value: string | undefined,
  rest: Partial<PreviewParameter> = {},
): PreviewParameter => ({
  name,
  display_name: '',
  description: '',
  type: 'string',
  form_type: 'input',
  styling: {},
  mutable: true,
  default_value: { value: '', valid: false },
  icon: '',
  options: [],
  validations: [],
  required: false,
  order: 0,
  ephemeral: false,
  value: { value: value ?? '', valid: value !== undefined },
  diagnostics: [],
  ...rest,
});
const wrong = (detail: string) => [{ severity: 'error' as const, summary: 'Wrong', detail, extra: { code: '' } }];

test('follows the template until the person enters a value', () => {
  let form = withAnswer(startLive({}), [parameter('size', 'small'), parameter('image', 'a')]);
  assert.deepEqual(inputsOf(form), {});
  form = withAnswer(typed(form, 'size', 'large'), [parameter('size', 'large'), parameter('image', 'b')]);
  assert.deepEqual(
    form.states.map(({ name, value }) => [name, value]),
    [
      ['size', 'large'],
      ['image', 'b'],
    ],
  );
  assert.deepEqual(inputsOf(form), { size: 'large' });
});

test('shows what is typed immediately, and its problem only with the answer to it', () => {
  let form = withAnswer(startLive({}), [parameter('n', '1')]);
  form = typed(form, 'n', '100');
  assert.deepEqual([form.states[0]!.value, form.states[0]!.problem], ['100', undefined]);
  form = withAnswer(form, [parameter('n', '10', { diagnostics: wrong('10 is wrong') })]);
  assert.deepEqual([form.states[0]!.value, form.states[0]!.problem], ['100', undefined], 'an answer to 10');
  form = withAnswer(form, [parameter('n', '100', { diagnostics: wrong('100 is wrong') })]);
  assert.equal(form.states[0]!.problem, '100 is wrong');
});

test('renders only the fields that changed', () => {
  const form = withAnswer(startLive({}), [parameter('a', '1'), parameter('b', '1')]);
  const next = withAnswer(form, [parameter('a', '1'), parameter('b', '2')]);
  assert.equal(next.states[0], form.states[0]);
  assert.notEqual(next.states[1], form.states[1]);
});

test('drops ephemeral values of the last build, and locks immutable ones', () => {
  const previous = [
    { name: 'once', value: 'x' },
    { name: 'fixed', value: 'eu' },
  ];
  const answer = [parameter('once', 'x', { ephemeral: true }), parameter('fixed', 'eu', { mutable: false })];
  const form = withAnswer(startLive({ previous }), answer);
  assert.deepEqual(inputsOf(form), { fixed: 'eu' });
  assert.match(form.states[1]!.locked!, /after the workspace was created/);
  assert.equal(typed(form, 'fixed', 'us'), form);
});

test('leaves a value that Terraform computes to the build', () => {
  const form = withAnswer(startLive({}), [parameter('later', undefined), parameter('now', '1')]);
  assert.deepEqual(valuesOf(form.states), [{ name: 'now', value: '1' }]);
  assert.deepEqual(
    valuesOf(typed(form, 'later', 'x').states).map(({ name }) => name),
    ['later', 'now'],
  );
});

test('a preset sets and locks its values, and frees them when it is left', () => {
  const preset = {
    ID: 'p',
    Name: 'Big',
    Parameters: [{ Name: 'size', Value: 'large' }],
    Default: false,
    DesiredPrebuildInstances: null,
    Description: '',
    Icon: '',
  };
  let form = withPreset(withAnswer(startLive({}), [parameter('size', 'small')]), preset);
  assert.deepEqual([inputsOf(form), form.states[0]!.locked], [{ size: 'large' }, 'Set by the preset Big.']);
  form = withPreset(form, undefined);
  assert.deepEqual([form.states[0]!.value, form.states[0]!.locked], ['large', undefined]);
});
