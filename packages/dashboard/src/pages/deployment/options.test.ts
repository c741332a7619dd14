import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DeploymentOption } from '@ropewalk/contract';
import { byGroup, pageOf, searchOptions, sourceText, valueText } from './options.ts';

const option = (fields: Partial<DeploymentOption> & { parent?: string; in?: string }): DeploymentOption => {
  const { parent, in: group = 'Server', ...rest } = fields;
  const named = (name: string) => ({ name, description: '', yaml: '' });
  return {
    annotations: {},
    default: '',
    description: '',
    env: 'CODER_X',
    flag: 'x',
    flag_shorthand: '',
    group: { ...named(group), ...(parent ? { parent: named(parent) } : {}) },
    hidden: false,
    name: 'X',
    required: false,
    use_instead: [],
    value: '',
    value_source: '',
    yaml: 'x',
    ...rest,
  };
};

test('puts each option on the page of its subject', () => {
  assert.equal(pageOf(option({ flag: 'http-address', parent: 'Networking', in: 'HTTP' })), 'network');
  assert.equal(pageOf(option({ flag: 'tls-enable', parent: 'Networking', in: 'TLS' })), 'security');
  assert.equal(pageOf(option({ flag: 'email-tls-starttls', parent: 'Email', in: 'TLS' })), 'notifications');
  assert.equal(pageOf(option({ flag: 'dangerous-oidc-skip-issuer-checks', in: 'OIDC' })), 'userauth');
  assert.equal(pageOf(option({ flag: 'log-json', parent: 'Introspection', in: 'Logging' })), 'observability');
  assert.equal(pageOf(option({ flag: 'cache-dir' })), 'general');
});

test('shows durations with their unit, and other numbers as they are', () => {
  const annotations = { format_duration: 'true' } as never;
  assert.equal(valueText(option({ value: 90_000_000_000, annotations })), '1 m 30 s');
  assert.equal(valueText(option({ value: 63_072_000, default: '0' })), '63072000');
});

test('shows lists and maps, and nothing for unset options', () => {
  assert.equal(valueText(option({ value: ['a', 'b'] })), 'a\nb');
  assert.equal(valueText(option({ value: { a: 'b' } })), '{\n  "a": "b"\n}');
  assert.equal(valueText(option({ value: { Choices: ['lax', 'none'], Value: 'lax' } })), 'lax');
  assert.equal(valueText(option({ value: [] })), undefined);
  assert.equal(valueText(option({ value: false })), 'Off');
});

test('never shows a secret', () => {
  assert.equal(valueText(option({ value: 'hidden', annotations: { secret: 'true' } as never })), undefined);
});

test('names the source of a value', () => {
  assert.equal(sourceText(option({ value_source: 'flag', flag: 'log-json' })), '--log-json');
  assert.equal(sourceText(option({ value_source: 'env', env: 'CODER_LOG' })), 'CODER_LOG');
  assert.equal(sourceText(option({ value_source: 'default' })), undefined);
});

test('finds options by words of name, flag or description', () => {
  const all = [option({ name: 'Access URL', flag: 'access-url' }), option({ name: 'Cache Directory' })];
  assert.deepEqual(searchOptions(all, '--access'), [all[0]]);
  assert.deepEqual(searchOptions(all, 'dir cache'), [all[1]]);
  assert.equal(byGroup(all).length, 1);
  const nested = option({ parent: 'Email', in: 'TLS' });
  nested.group.parent!.parent = { name: 'Notifications', description: '', yaml: '' };
  assert.deepEqual(
    byGroup([nested]).map(([name]) => name),
    ['Notifications › Email › TLS'],
  );
});
