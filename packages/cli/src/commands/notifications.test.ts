import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { ListInboxNotificationsResponse, NotificationsSettings, PrebuildsSettings } from '@ropewalk/contract';
import { eventually, insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { invoke } from '../testing/invoke.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

const coder = (args: string, token = server.adminToken) =>
  invoke(args.split(' '), { CODER_URL: server.url, CODER_SESSION_TOKEN: token }, '');
const paused = async () =>
  (await server.api<NotificationsSettings>('GET', '/notifications/settings')).body.notifier_paused;

test('pauses, tests and resumes notifications', async () => {
  assert.match((await coder('notifications pause')).stdout, /Notifications are paused/);
  assert.equal(await paused(), true);
  assert.equal((await coder('notification test')).code, 0);
  assert.match((await coder('notifications resume')).stdout, /Notifications are sent again/);
  assert.equal(await paused(), false);
  await eventually('the test', async () => {
    const { body } = await server.api<ListInboxNotificationsResponse>('GET', '/notifications/inbox');
    return body.unread_count === 1;
  });
  const { token } = await insertPerson(server, 'member');
  assert.equal((await coder('notifications pause', token)).code, 1);
});

test('sends a message of a person to that person', async () => {
  const { token } = await insertPerson(server, 'sender');
  const words = ['notifications', 'custom', 'Build', 'It is **done**.'];
  const send = () => invoke(words, { CODER_URL: server.url, CODER_SESSION_TOKEN: token });
  const sent = { code: 0, stdout: 'The notification is on its way to you.\n', stderr: '' };
  assert.deepEqual(await send(), sent);
  const inbox = async () =>
    (await server.api<ListInboxNotificationsResponse>('GET', '/notifications/inbox', { token })).body.notifications;
  const [message] = await eventually('the message', async () => {
    const messages = await inbox();
    return messages.length > 0 && messages;
  });
  assert.deepEqual([message!.title, message!.content], ['Build', 'It is **done**.']);
  assert.equal(message!.template_id, '39b1e189-c857-4b0c-877a-511144c18516');

  for (const [title, text] of [
    [' ', 'x'],
    ['x', ''],
    ['x'.repeat(121), 'x'],
    ['x', 'x'.repeat(2_001)],
  ]) {
    const { code, stderr } = await invoke(['notifications', 'custom', title!, text!], {
      CODER_URL: server.url,
      CODER_SESSION_TOKEN: token,
    });
    assert.deepEqual([code, /content/.test(stderr)], [1, true], stderr);
  }
});

test('pauses and resumes prebuilt workspaces', async () => {
  const arePaused = async () =>
    (await server.api<PrebuildsSettings>('GET', '/prebuilds/settings')).body.reconciliation_paused;
  assert.match((await coder('prebuilds pause')).stdout, /paused/);
  assert.equal(await arePaused(), true);
  assert.match((await coder('prebuild resume')).stdout, /again/);
  assert.equal(await arePaused(), false);
  const { token } = await insertPerson(server, 'waiting');
  assert.equal((await coder('prebuilds pause', token)).code, 1);
});
