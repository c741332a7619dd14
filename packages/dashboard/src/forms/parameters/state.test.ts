import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Preset, TemplateVersionParameter } from '@ropewalk/contract';
import { applyPreset, changeParameter, formTypeOf, linkValues, startParameters, valuesOf } from './state.ts';

const parameter = (name: string, rest: Partial<TemplateVersionParameter> = {}): TemplateVersionParameter => ({
  name,
  default_value: '',
  description: '',
  description_plaintext: '',
  ephemeral: false,
  form_type: '',
  icon: '',
  mutable: true,
  required: false,
  type: 'string',
  ...rest,
});
const preset = (name: string, values: Record<string, string>): Preset => ({
  Default: false,
  Description: '',
  DesiredPrebuildInstances: null,
  Icon: '',
  ID: name,
  Name: name,
  Parameters: Object.entries(values).map(([Name, Value]) => ({ Name, Value })),
});
const states = (list: ReturnType<typeof startParameters>) => list.map(({ state }) => state);

test('takes the first value from the best source', () => {
  const list = startParameters([parameter('a', { default_value: 'd' }), parameter('b'), parameter('c')], {
    autofill: [
      { name: 'a', value: 'auto' },
      { name: 'b', value: 'auto' },
      { name: 'c', value: 'auto' },
    ],
    link: [{ name: 'b', value: 'link' }],
    preset: preset('Large', { c: 'preset' }),
  });
  assert.deepEqual(
    states(list).map(({ value }) => value),
    ['auto', 'link', 'preset'],
  );
  assert.equal(list[2]!.state.locked, 'Set by the preset Large.');
});

test('keeps immutable values and drops ephemeral ones of the last build', () => {
  const list = states(
    startParameters(
      [
        parameter('fixed', { mutable: false }),
        parameter('once', { ephemeral: true, default_value: 'false', type: 'bool' }),
        parameter('free'),
      ],
      {
        previous: [
          { name: 'fixed', value: 'eu' },
          { name: 'once', value: 'true' },
          { name: 'free', value: 'x' },
        ],
        link: [{ name: 'fixed', value: 'us' }],
      },
    ),
  );
  assert.deepEqual(
    list.map(({ value }) => value),
    ['eu', 'false', 'x'],
  );
  assert.match(list[0]!.locked!, /after the workspace was created/);
  assert.deepEqual(valuesOf(list), [
    { name: 'fixed', value: 'eu' },
    { name: 'free', value: 'x' },
  ]);
});

test("reports the template's own message while a person types", () => {
  let list = startParameters(
    [
      parameter('cores', {
        type: 'number',
        default_value: '4',
        validation_min: 1,
        validation_max: 16,
        validation_error: 'Choose {min} to {max}, not {value}.',
      }),
      parameter('url', { validation_regex: '^https://' }),
    ],
    {},
  );
  const [, untouched] = list;
  list = changeParameter(list, 'cores', '99');
  assert.equal(list[0]!.state.problem, 'Choose 1 to 16, not 99.');
  assert.equal(list[1], untouched, 'other parameters are not evaluated again');
  list = changeParameter(list, 'url', 'ftp://x');
  assert.match(list[1]!.state.problem!, /does not match/);
  list = changeParameter(list, 'url', 'https://x');
  assert.equal(list[1]!.state.problem, undefined);
});

test('lets a monotonic number only grow', () => {
  let list = startParameters([parameter('disk', { type: 'number', validation_monotonic: 'increasing' })], {
    previous: [{ name: 'disk', value: '20' }],
  });
  list = changeParameter(list, 'disk', '10');
  assert.match(list[0]!.state.problem!, /less than before/);
  list = changeParameter(list, 'disk', '30');
  assert.equal(list[0]!.state.problem, undefined);
});

test('requires a value without a default', () => {
  const [{ state }] = startParameters([parameter('name', { required: true })], {}) as [{ state: { problem?: string } }];
  assert.equal(state.problem, 'Enter a value.');
});

test('locks and frees the parameters of presets', () => {
  const large = preset('Large', { cpu: '16' });
  let list = startParameters([parameter('cpu', { type: 'number', default_value: '2' })], {});
  list = applyPreset(list, undefined, large);
  assert.equal(list[0]!.state.value, '16');
  assert.equal(changeParameter(list, 'cpu', '3')[0]!.state.value, '16');
  list = applyPreset(list, large, undefined);
  assert.equal(list[0]!.state.locked, undefined);
});

test('chooses a control by type, and reads the values of a link', () => {
  assert.equal(formTypeOf(parameter('a', { type: 'bool' })), 'checkbox');
  assert.equal(formTypeOf(parameter('a', { type: 'list(string)' })), 'tag-select');
  assert.equal(
    formTypeOf(parameter('a', { options: [{ name: 'x', value: 'x', description: '', icon: '' }] })),
    'radio',
  );
  assert.deepEqual(linkValues({ 'param.region': 'eu', name: 'x', 'param.': 'y' }), [{ name: 'region', value: 'eu' }]);
});

test('says which values come from the last workspace, until they change', () => {
  const definitions = ['a', 'b', 'c', 'd'].map((name) => parameter(name, { default_value: 'x' }));
  const list = startParameters(definitions, {
    autofill: [
      { name: 'a', value: 'last' },
      { name: 'b', value: 'last' },
      { name: 'c', value: 'last' },
      { name: 'd', value: 'x' },
    ],
    link: [{ name: 'b', value: 'last' }],
    preset: preset('Large', { c: 'last' }),
  });
  const marked = (of: typeof list) => states(of).flatMap(({ name, fromLast }) => (fromLast ? [name] : []));
  assert.deepEqual(marked(list), ['a'], 'not those of the link, of the preset, and of the template');
  assert.deepEqual(marked(changeParameter(list, 'a', 'other')), []);
  assert.deepEqual(marked(applyPreset(list, undefined, preset('Small', { a: 'last' }))), []);
});
