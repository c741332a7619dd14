import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { invoke } from '../../testing/invoke.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

test('shows the claims of a person who signs in with OpenID Connect, and of nobody else', async () => {
  const claims = { sub: 'u1', groups: ['dev', 'ops'], email_verified: true };
  const { sql } = server.services;
  const { id, token } = await insertPerson(server, 'ann');
  const show = (...flags: string[]) =>
    invoke(['users', 'oidc-claims', ...flags], { CODER_URL: server.url, CODER_SESSION_TOKEN: token });
  const without = await show();
  assert.deepEqual(without, { code: 1, stdout: '', stderr: 'error: You do not sign in with OpenID Connect.\n' });

  await sql`UPDATE users SET login_type = 'oidc' WHERE id = ${id}`;
  const none = await show();
  assert.deepEqual(none, { code: 0, stdout: '', stderr: 'The identity provider reported no claims.\n' });
  await sql`INSERT INTO user_links (user_id, login_type, linked_id, access_token, refresh_token, claims)
    VALUES (${id}, 'oidc', 'issuer||u1', '', '', ${sql.json(claims)})`;
  assert.equal(
    (await show()).stdout,
    'KEY             VALUE\nemail_verified  true\ngroups          ["dev","ops"]\nsub             u1\n',
  );
  assert.deepEqual(JSON.parse((await show('-o', 'json')).stdout), { claims });
  assert.equal((await show('-c', 'key')).stdout, 'KEY\nemail_verified\ngroups\nsub\n');
});
