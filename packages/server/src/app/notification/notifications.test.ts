import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import type {
  GetInboxNotificationResponse,
  InboxNotification,
  ListInboxNotificationsResponse,
  NotificationPreference,
  NotificationTemplate,
  Response,
  Workspace,
} from '@ropewalk/contract';
import {
  createTestTemplate,
  eventually,
  failTaken,
  holdTask,
  insertPerson,
  pendingVersion,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { dialWebSocket } from '@ropewalk/wire/websocket';
import { TEMPLATES } from './templates.ts';
import { type MailServer, startMailServer } from './testing/mail-server.ts';

let mail: MailServer;
let server: TestServer;
/** How the webhook receiver answers, and what it received. */
let answer = (_request: IncomingMessage, response: ServerResponse): void => void response.writeHead(204).end();
const received: { headers: IncomingMessage['headers']; body: Record<string, unknown> }[] = [];
const receiver = createServer((request, response) => {
  let text = '';
  request.on('data', (part: Buffer) => {
    text += part.toString();
  });
  request.on('end', () => {
    received.push({ headers: request.headers, body: JSON.parse(text) as Record<string, unknown> });
    answer(request, response);
  });
});
before(async () => {
  mail = await startMailServer({
    onRcptTo({ address }, _session, done) {
      done(address.startsWith('rejected') ? Object.assign(new Error('no such person'), { responseCode: 550 }) : null);
    },
  });
  receiver.listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  server = await startTestServer({ env: options() });
});
after(async () => {
  await server.stop();
  await mail.close();
  receiver.closeAllConnections();
  receiver.close();
});

const options = () => ({
  CODER_EMAIL_SMARTHOST: `127.0.0.1:${mail.port}`,
  CODER_EMAIL_FROM: 'coder@example.com',
  CODER_NOTIFICATIONS_WEBHOOK_ENDPOINT: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`,
  CODER_NOTIFICATIONS_RETRY_INTERVAL: '50ms',
  CODER_NOTIFICATIONS_MAX_SEND_ATTEMPTS: '3',
});
const inbox = async (token?: string, query = ''): Promise<ListInboxNotificationsResponse> =>
  (await server.api<ListInboxNotificationsResponse>('GET', `/notifications/inbox${query}`, token ? { token } : {}))
    .body;
const titled = (title: string | RegExp, token?: string): Promise<InboxNotification> =>
  eventually(`an inbox notification ${title}`, async () => {
    const { notifications } = await inbox(token);
    return notifications.find((each) => (typeof title === 'string' ? each.title === title : title.test(each.title)));
  });
const mailTo = (address: string, text: string) =>
  eventually(`a mail to ${address}`, async () =>
    mail.mails.find(({ to, text: all }) => to.includes(address) && all.includes(text)),
  );
/** Waits until no message waits or is being sent. */
const settled = ({ services } = server) =>
  eventually('all messages ended', async () => {
    const [row] = await services.sql<{ count: number }[]>`SELECT count(*) AS count FROM notification_messages
      WHERE status IN ('pending', 'leased')`;
    return row!.count === 0;
  });

test('notifies owners and user admins of accounts, and the person', async () => {
  const helper = await insertPerson(server, 'helper', ['user-admin']);
  await insertPerson(server, 'bystander');
  const made = { username: 'newbie', email: 'newbie@example.com', password: 'newbie correct horse' };
  assert.equal((await server.api('POST', '/users', { body: made, token: helper.token })).status, 201);
  const listed = await titled("User account 'newbie' was created");
  assert.equal(listed.content, '**helper** created the account **newbie**.');
  assert.equal(listed.template_id, TEMPLATES.userCreated.id);
  assert.deepEqual(listed.actions, [
    { label: 'View accounts', url: `${server.accessUrl}/deployment/users?filter=newbie` },
  ]);
  const sent = await mailTo('admin@example.com', "'newbie' was created");
  assert.match(sent.text, /Subject: User account 'newbie' was created/);
  assert.equal((await server.api('PUT', '/users/newbie/status/suspend')).status, 200);
  await mailTo('newbie@example.com', 'Your account was suspended');
  await titled("User account 'newbie' was suspended", helper.token);
  assert.equal((await server.api('PUT', '/users/newbie/status/activate')).status, 200);
  await mailTo('newbie@example.com', 'Your account was activated');
  assert.equal((await server.api('DELETE', '/users/newbie')).status, 200);
  await titled("User account 'newbie' was deleted", helper.token);
  await settled();
  const { notifications } = await inbox(helper.token);
  // not about what the person did
  assert.ok(!notifications.some(({ title }) => title.includes('was created')));
  assert.ok(!mail.mails.some(({ to }) => to.includes('bystander@example.com')));
});

test('notifies people of workspaces, failed builds and templates', async (t) => {
  // otherwise the server itself stops the workspace as soon as it is dormant
  t.after(await holdTask(server, 'schedules'));
  const owner = await insertPerson(server, 'wanda');
  const keeper = await insertPerson(server, 'keeper', ['template-admin']);
  const template = await createTestTemplate(server, 'noted');
  const on = { template_disabled_map: { [TEMPLATES.workspaceCreated.id]: false } };
  await server.api('PUT', '/users/me/notifications/preferences', { token: owner.token, body: on });
  const made = await server.api<Workspace>('POST', '/users/me/workspaces', {
    token: owner.token,
    body: { name: 'dev', template_id: template.id },
  });
  assert.equal(made.status, 201);
  const created = await titled("Workspace 'dev' was created", owner.token);
  assert.deepEqual(created.actions, [{ label: 'View workspace', url: `${server.accessUrl}/@wanda/dev` }]);
  await failTaken(server, await takeJob(server), 'no capacity');
  const failed = await titled("A build of workspace 'dev' failed", keeper.token);
  assert.match(failed.content, /\*\*wanda\*\* started the build/);
  assert.equal(failed.actions[0]!.url, `${server.accessUrl}/@wanda/dev/builds/1`);
  assert.ok(failed.targets.includes(made.body.id));
  assert.equal(
    (await server.api('PUT', `/workspaces/${made.body.id}/dormant`, { body: { dormant: true } })).status,
    200,
  );
  await titled("Workspace 'dev' is dormant", owner.token);
  const old = { deprecation_message: 'Use the *new* one.' };
  assert.equal((await server.api('PATCH', `/templates/${template.id}`, { body: old })).status, 200);
  const deprecated = await titled("Template 'noted' is deprecated", owner.token);
  assert.ok(deprecated.content.includes('Use the \\*new\\* one\\.'));
  const orphan = { transition: 'delete', orphan: true };
  assert.equal((await server.api('POST', `/workspaces/${made.body.id}/builds`, { body: orphan })).status, 201);
  const deleted = await titled("Workspace 'dev' was deleted", owner.token);
  assert.match(deleted.content, /\*\*admin\*\* deleted your workspace/);
  assert.equal((await server.api('DELETE', `/templates/${template.id}`)).status, 200);
  await titled("Template 'noted' was deleted", keeper.token);
  // a template version's failed import is nobody's workspace
  await pendingVersion(server);
  await failTaken(server, await takeJob(server), 'broken');
  await settled();
  assert.equal((await inbox(keeper.token)).unread_count, 2);
});

test('shows an inbox with filters, pages and read marks, of the caller alone', async () => {
  const ina = await insertPerson(server, 'ina', ['owner']);
  for (let i = 0; i < 27; i++) await server.api('POST', '/notifications/test', { token: ina.token });
  await settled();
  const first = await inbox(ina.token);
  assert.deepEqual([first.notifications.length, first.unread_count], [25, 27]);
  const oldest = first.notifications.at(-1)!;
  const rest = await inbox(ina.token, `?starting_before=${oldest.id}`);
  assert.equal(rest.notifications.length, 2);
  const { id } = first.notifications[0]!;
  const read = await server.api<{ unread_count: number }>('PUT', `/notifications/inbox/${id}/read-status`, {
    token: ina.token,
    body: { is_read: true },
  });
  assert.equal(read.body.unread_count, 26);
  assert.deepEqual(
    (await inbox(ina.token, '?read_status=read')).notifications.map((each) => each.id),
    [id],
  );
  assert.equal((await inbox(ina.token, `?templates=${TEMPLATES.userCreated.id}`)).notifications.length, 0);
  assert.equal((await inbox(ina.token, `?targets=${crypto.randomUUID()}`)).notifications.length, 0);
  const foreign = { body: { is_read: true } };
  assert.equal((await server.api('PUT', `/notifications/inbox/${id}/read-status`, foreign)).status, 404);
  assert.equal((await server.api('PUT', '/notifications/inbox/mark-all-as-read', { token: ina.token })).status, 204);
  assert.equal((await inbox(ina.token)).unread_count, 0);
  for (const query of ['?read_status=new', '?targets=x', '?templates=1']) {
    assert.equal((await server.api('GET', `/notifications/inbox${query}`)).status, 400, query);
  }
});

test('streams new notifications over a WebSocket', async () => {
  const { connection } = await dialWebSocket(`${server.url}/api/v2/notifications/inbox/watch?format=plaintext`, {
    headers: { 'Coder-Session-Token': server.adminToken },
  });
  const messages: GetInboxNotificationResponse[] = [];
  connection.on('text', (text) => messages.push(JSON.parse(text) as GetInboxNotificationResponse));
  await server.api('POST', '/notifications/test');
  const [message] = await eventually('the message', async () => messages.length > 0 && messages);
  assert.equal(message!.notification.title, 'A test notification');
  assert.equal(message!.notification.content, 'Notifications work. admin requested this test.');
  assert.ok(message!.unread_count > 0);
  connection.close(1000, '');
});

test('keeps preferences, and methods of templates', async () => {
  const { body: templates } = await server.api<NotificationTemplate[]>('GET', '/notifications/templates/system');
  const { body: custom } = await server.api<NotificationTemplate[]>('GET', '/notifications/templates/custom');
  assert.deepEqual(
    custom.map(({ id, name, group, kind }) => [id, name, group, kind]),
    [['39b1e189-c857-4b0c-877a-511144c18516', 'Custom Notification', 'Custom Events', 'custom']],
  );
  assert.equal(templates.length, 22);
  const ofDefault = templates.filter((each) => !each.enabled_by_default).map(({ name }) => name);
  assert.deepEqual(ofDefault, ['Workspace Created', 'Workspace Manually Updated']);
  const fussy = await insertPerson(server, 'fussy', ['owner']);
  const off = { template_disabled_map: { [TEMPLATES.userCreated.id]: true } };
  const put = await server.api<NotificationPreference[]>('PUT', '/users/fussy/notifications/preferences', {
    body: off,
  });
  assert.deepEqual(
    put.body.map(({ id, disabled }) => [id, disabled]),
    [[TEMPLATES.userCreated.id, true]],
  );
  for (const id of ['x', crypto.randomUUID(), TEMPLATES.oneTimePasscode.id]) {
    const bad = { template_disabled_map: { [id]: true } };
    assert.equal((await server.api('PUT', '/users/fussy/notifications/preferences', { body: bad })).status, 400);
  }
  const member = await insertPerson(server, 'nosy');
  assert.equal(
    (await server.api('GET', '/users/fussy/notifications/preferences', { token: member.token })).status,
    404,
  );
  assert.equal((await server.api('POST', '/notifications/test', { token: member.token })).status, 404);
  const method = `/notifications/templates/${TEMPLATES.userCreated.id}/method`;
  assert.equal((await server.api('PUT', method, { body: { method: 'webhook' } })).status, 200);
  assert.equal((await server.api('PUT', method, { body: { method: 'pigeon' } })).status, 400);
  assert.equal((await server.api('PUT', method, { body: { method: 'smtp' }, token: member.token })).status, 404);
  await settled();
  const before = mail.mails.length;
  const made = { username: 'hooked', email: 'hooked@example.com', password: 'hooked correct horse' };
  assert.equal((await server.api('POST', '/users', { body: made, token: fussy.token })).status, 201);
  const hook = await eventually('the webhook', async () =>
    received.find(({ body }) => String(body['title']).includes('hooked')),
  );
  const payload = hook.body['payload'] as Record<string, unknown>;
  assert.deepEqual(
    [hook.body['_version'], payload['notification_name'], payload['user_username'], payload['labels']],
    ['1.1', 'User account created', 'admin', { username: 'hooked', initiator: 'fussy' }],
  );
  assert.equal(hook.body['body'], 'fussy created the account hooked.');
  assert.equal(hook.headers['x-message-id'], hook.body['msg_id']);
  await settled();
  assert.equal(mail.mails.length, before);
  assert.ok(!(await inbox(fussy.token)).notifications.some(({ title }) => title.includes('hooked')));
});

test('a receiver that never answers delays no mail, and is given up after the last attempt', async (t) => {
  const env = { CODER_NOTIFICATIONS_DISPATCH_TIMEOUT: '1s', CODER_NOTIFICATIONS_LEASE_PERIOD: '1s' };
  const other = await startTestServer({ env: { ...options(), ...env } });
  t.after(() => other.stop());
  const maker = await insertPerson(other, 'maker', ['owner']);
  const method = `/notifications/templates/${TEMPLATES.userCreated.id}/method`;
  assert.equal((await other.api('PUT', method, { body: { method: 'webhook' } })).status, 200);
  answer = () => {};
  received.length = 0;
  mail.mails.length = 0;
  const made = { username: 'slow', email: 'slow@example.com', password: 'slow correct horse' };
  assert.equal((await other.api('POST', '/users', { body: made, token: maker.token })).status, 201);
  await other.api('POST', '/notifications/test');
  await mailTo('admin@example.com', 'Notifications work');
  const [waiting] = await other.services.sql`SELECT 1 FROM notification_messages
    WHERE method = 'webhook' AND status IN ('pending', 'leased')`;
  assert.ok(waiting, 'the mail did not wait for the webhook');
  await settled(other);
  const failed = await other.services.sql`SELECT attempts, last_error, labels FROM notification_messages
    WHERE method = 'webhook' AND status = 'failed'`;
  assert.ok(failed.length > 0);
  assert.deepEqual({ ...failed[0] }, { attempts: 3, last_error: 'it took longer than 1000 ms', labels: {} });
  // an attempt may have ended before its request arrived
  assert.ok(received.length > 0 && received.length <= 3 * failed.length, `${received.length} requests`);
  answer = (_request, response) => void response.writeHead(204).end();
});

test('gives up an address that the mail server rejects, and sends the others', async () => {
  await insertPerson(server, 'rejected', ['owner']);
  await insertPerson(server, 'accepted', ['owner']);
  const template = `/notifications/templates/${TEMPLATES.userCreated.id}/method`;
  await server.api('PUT', template, { body: { method: '' } });
  const made = { username: 'both', email: 'both@example.com', password: 'both correct horse' };
  await server.api('POST', '/users', { body: made });
  await mailTo('accepted@example.com', "'both' was created");
  await settled();
  const rows = await server.services.sql`SELECT m.attempts, m.status, m.last_error FROM notification_messages m
    JOIN users u ON u.id = m.user_id WHERE u.username = 'rejected' AND m.method = 'smtp'`;
  assert.equal(rows.length, 1);
  assert.deepEqual([rows[0]!['attempts'], rows[0]!['status']], [1, 'failed']);
  assert.match(rows[0]!['last_error'] as string, /550 no such person/);
});

test('keeps messages while notifications are paused, and sends each once afterwards', async () => {
  const pause = await server.api('PUT', '/notifications/settings', { body: { notifier_paused: true } });
  assert.deepEqual(pause.body, { notifier_paused: true });
  const before = mail.mails.length;
  await server.api('POST', '/notifications/test');
  await server.api('POST', '/notifications/test');
  const [waiting] = await server.services.sql<{ count: number }[]>`SELECT count(*) AS count FROM notification_messages
    WHERE status = 'pending'`;
  assert.equal(waiting!.count, 4);
  assert.equal(mail.mails.length, before);
  await server.api('PUT', '/notifications/settings', { body: { notifier_paused: false } });
  await settled();
  assert.equal(mail.mails.length, before + 2);
  const member = await insertPerson(server, 'mona');
  const put = await server.api<Response>('PUT', '/notifications/settings', {
    body: { notifier_paused: true },
    token: member.token,
  });
  assert.equal(put.status, 404);
});
