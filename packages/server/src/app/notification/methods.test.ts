import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadConfig } from '../../config/load.ts';
import { configuredMethods, methodsFor } from './methods.ts';
import { TEMPLATES } from './templates.ts';

const config = (env: Record<string, string>) => loadConfig({ env }).config;
const MAIL = { CODER_EMAIL_SMARTHOST: 'mail:25' };
const HOOK = { CODER_NOTIFICATIONS_WEBHOOK_ENDPOINT: 'https://hooks.example.com' };

test('sends by the default or chosen method if it is configured, and always to the inbox', () => {
  assert.deepEqual(configuredMethods(config({})), ['inbox']);
  assert.deepEqual(configuredMethods(config({ ...MAIL, ...HOOK })), ['smtp', 'webhook', 'inbox']);
  const { userCreated } = TEMPLATES;
  assert.deepEqual(methodsFor(config({}), userCreated, undefined), ['inbox']);
  assert.deepEqual(methodsFor(config({ ...MAIL, ...HOOK }), userCreated, undefined), ['smtp', 'inbox']);
  assert.deepEqual(methodsFor(config({ ...MAIL, ...HOOK }), userCreated, 'webhook'), ['webhook', 'inbox']);
  assert.deepEqual(methodsFor(config({ ...MAIL, ...HOOK }), userCreated, 'inbox'), ['inbox']);
  const hooks = config({ ...MAIL, ...HOOK, CODER_NOTIFICATIONS_METHOD: 'webhook' });
  assert.deepEqual(methodsFor(hooks, userCreated, undefined), ['webhook', 'inbox']);
  const noInbox = config({ ...MAIL, CODER_NOTIFICATIONS_INBOX_ENABLED: 'false' });
  assert.deepEqual(methodsFor(noInbox, userCreated, undefined), ['smtp']);
});

test('sends a warning to the holder of an address by mail too, whatever is chosen', () => {
  const { emailChanged } = TEMPLATES;
  assert.deepEqual(methodsFor(config({ ...MAIL, ...HOOK }), emailChanged, 'webhook'), ['smtp', 'webhook', 'inbox']);
  assert.deepEqual(methodsFor(config({ ...MAIL, ...HOOK }), emailChanged, 'inbox'), ['smtp', 'inbox']);
  assert.deepEqual(methodsFor(config({}), emailChanged, undefined), ['inbox']);
});

test('sends a passcode by mail only', () => {
  assert.deepEqual(
    methodsFor(config({ ...HOOK, CODER_NOTIFICATIONS_METHOD: 'webhook' }), TEMPLATES.oneTimePasscode, undefined),
    [],
  );
  assert.deepEqual(methodsFor(config({ ...MAIL, ...HOOK }), TEMPLATES.oneTimePasscode, 'webhook'), ['smtp']);
});
