import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Organization, User } from '@ropewalk/contract';
import { systemClock } from '@ropewalk/kit';
import { ADMIN, createPerson, eventually, logIn, startTestServer, type TestServer } from '@ropewalk/testkit';

/** How much later the monotonic clock of `server` is, in ms. */
let later = 0;
/** How much later its calendar is, in ms. */
let calendar = 0;
let server: TestServer;
let other: TestServer;
before(async () => {
  server = await startTestServer({
    env: { CODER_PROVISIONER_DAEMONS: '0' },
    clock: {
      ...systemClock,
      monotonic: () => systemClock.monotonic() + later,
      now: () => new Date(systemClock.now().getTime() + calendar),
    },
  });
  other = await startTestServer({ joins: server });
});
after(async () => {
  await other.stop();
  await server.stop();
});

const me = (token: string, at: TestServer = server) => at.api<User>('GET', '/users/me', { token });

/** Makes both servers remember the token, as if its person had just used them. */
async function use(token: string): Promise<void> {
  for (const at of [server, other, server, other]) assert.equal((await me(token, at)).status, 200);
}

/** The next request is rejected, and soon after those to the other server. */
async function rejected(token: string): Promise<void> {
  assert.equal((await me(token)).status, 401);
  await eventually('the other server rejects it', async () => (await me(token, other)).status === 401, 4_000);
}

test('rejects the next request with a token that was just used, however it was revoked', async () => {
  const pia = await createPerson(server, 'pia');
  const session = () => logIn(server, 'pia@example.com', 'pia correct horse');

  const signedOut = await session();
  await use(signedOut);
  assert.equal((await server.api('POST', '/users/logout', { token: signedOut })).status, 200);
  await rejected(signedOut);

  const { body } = await server.api<{ key: string }>('POST', '/users/me/keys/tokens', { token: pia.token, body: {} });
  await use(body.key);
  const id = body.key.split('-')[0];
  assert.equal((await server.api('DELETE', `/users/me/keys/${id}`, { token: pia.token })).status, 204);
  await rejected(body.key);

  await use(pia.token);
  assert.equal((await server.api('PUT', '/users/pia/status/suspend')).status, 200);
  await rejected(pia.token);

  assert.equal((await server.api('PUT', '/users/pia/status/activate')).status, 200);
  const last = await session();
  await use(last);
  assert.equal((await server.api('DELETE', '/users/pia')).status, 200);
  await rejected(last);
});

test('shows the next request a taken role, a left organization and a new name', async () => {
  const quin = await createPerson(server, 'quin', ['user-admin']);
  const organizations = (at: TestServer) => at.api<Organization[]>('GET', '/organizations', { token: quin.token });
  await use(quin.token);
  assert.deepEqual(
    (await me(quin.token)).body.roles.map(({ name }) => name),
    ['user-admin'],
  );
  assert.equal((await organizations(server)).body.length, 1);

  assert.equal((await server.api('PUT', '/users/quin/roles', { body: { roles: [] } })).status, 200);
  assert.deepEqual((await me(quin.token)).body.roles, []);
  await eventually('the other server', async () => (await me(quin.token, other)).body.roles.length === 0, 4_000);
  const body = { username: 'rae', email: 'rae@example.com', login_type: 'none' };
  assert.equal((await server.api('POST', '/users', { token: quin.token, body })).status, 403);

  const renamed = { username: 'quinn', name: 'Quinn' };
  assert.equal((await server.api('PUT', '/users/me/profile', { token: quin.token, body: renamed })).status, 200);
  assert.equal((await me(quin.token)).body.username, 'quinn');

  assert.equal((await server.api('DELETE', '/organizations/default/members/quinn')).status, 204);
  assert.deepEqual((await me(quin.token)).body.organization_ids, []);
  assert.deepEqual((await organizations(server)).body, []);
});

test('does not accept another secret with the id of a remembered token', async () => {
  const token = await logIn(server, ADMIN.email, ADMIN.password);
  await use(token);
  const wrong = `${token.slice(0, -1)}${token.endsWith('0') ? '1' : '0'}`;
  assert.equal((await me(wrong)).status, 401);
  assert.equal((await me(`${token}0`)).status, 401);
  assert.equal((await me(token)).status, 200);
});

test('rejects a remembered token that has expired', async () => {
  const body = { lifetime: 3_600_000_000_000 };
  const { body: created } = await server.api<{ key: string }>('POST', '/users/me/keys/tokens', { body });
  assert.equal((await me(created.key)).status, 200);
  calendar = 3_601_000;
  const late = await server.api<{ detail: string }>('GET', '/users/me', { token: created.key });
  calendar = 0;
  assert.deepEqual([late.status, late.body.detail], [401, 'Token has expired.']);
});

test('asks the database after five seconds, should the event of a revocation be lost', async () => {
  const token = await logIn(server, ADMIN.email, ADMIN.password);
  assert.equal((await me(token)).status, 200);
  await server.services.sql`DELETE FROM api_keys WHERE id = ${token.split('-')[0]!}`;
  assert.equal((await me(token)).status, 200);
  later += 5_001;
  assert.equal((await me(token)).status, 401);
});
