import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TemplateBuilderBase, TemplateBuilderModule, TemplateBuilderModuleVariable } from '@ropewalk/contract';
import { excludedBy, fieldsOf, isMissing, requestOf, shownValues } from './choice.ts';

const variable = (name: string, more: Partial<TemplateBuilderModuleVariable> = {}): TemplateBuilderModuleVariable => ({
  name,
  type: 'string',
  description: '',
  required: false,
  sensitive: false,
  ...more,
});
const module = (id: string, conflicts: string[] = [], variables: TemplateBuilderModuleVariable[] = []) =>
  ({ id, conflicts_with: conflicts, variables }) as unknown as TemplateBuilderModule;
const VARIABLES = [
  variable('region', { required: true }),
  variable('size', { type: 'number', default: 2 }),
  variable('mirror', { default: 'x' }),
  variable('key', { required: true, sensitive: true }),
];

test('sends what differs from the defaults, and never a sensitive value', () => {
  const base = { id: 'docker', variables: VARIABLES } as unknown as TemplateBuilderBase;
  const entered = {
    docker: { region: 'eu', size: '', mirror: '', key: 'canary' },
    'modules/tool': { size: '2', mirror: 'y' },
  };
  assert.deepEqual(requestOf(base, [module('tool', [], VARIABLES)], entered), {
    base_template_id: 'docker',
    base_variable_values: { region: 'eu', mirror: '' },
    modules: [{ id: 'tool', variables: { mirror: 'y' } }],
  });
});

test('asks for values without a default, except sensitive ones', () => {
  assert.deepEqual(
    fieldsOf(VARIABLES).map(({ name, default_value }) => [name, default_value]),
    [
      ['region', ''],
      ['size', '2'],
      ['mirror', 'x'],
    ],
  );
  assert.deepEqual(shownValues(VARIABLES, { region: 'eu' }), { region: 'eu', size: '2', mirror: 'x' });
  assert.ok(isMissing(VARIABLES, undefined));
  assert.ok(!isMissing(VARIABLES, { region: 'eu' }));
});

test('finds the module that excludes another, whichever of them names it', () => {
  const [a, b, c] = [module('a', ['b']), module('b'), module('c')];
  assert.equal(excludedBy(b, [a]), a);
  assert.equal(excludedBy(a, [b, c]), b);
  assert.equal(excludedBy(c, [a, b]), undefined);
  assert.equal(excludedBy(a, [a]), undefined);
});
