import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTestServer, startTestWorkspace } from '@ropewalk/testkit';
import { invoke } from '../../testing/invoke.ts';

test('prints the whole answer of the server as JSON, and where to sign in', async (t) => {
  const server = await startTestServer({
    env: {
      CODER_EXTERNAL_AUTH_0_ID: 'forge',
      CODER_EXTERNAL_AUTH_0_TYPE: 'custom',
      CODER_EXTERNAL_AUTH_0_CLIENT_ID: 'id',
      CODER_EXTERNAL_AUTH_0_CLIENT_SECRET: 'secret',
      CODER_EXTERNAL_AUTH_0_AUTH_URL: 'http://127.0.0.1:1/authorize',
      CODER_EXTERNAL_AUTH_0_TOKEN_URL: 'http://127.0.0.1:1/token',
    },
  });
  t.after(() => server.stop());
  const dev = await startTestWorkspace(server, 'dev');
  t.after(() => dev.stop());
  const print = async () => {
    const { code, stdout } = await invoke(['external-auth', 'access-token', 'forge', '--output', 'json'], {
      CODER_AGENT_URL: server.url,
      CODER_AGENT_TOKEN: dev.token,
    });
    return { code, answer: JSON.parse(stdout) as Record<string, unknown> };
  };
  const before = await print();
  assert.deepEqual([before.code, before.answer['url']], [1, `${server.accessUrl}/external-auth/forge`]);
  await server.services.sql`INSERT INTO external_auth_links (provider_id, user_id, access_token, refresh_token)
    SELECT 'forge', id, 'stored', '' FROM users WHERE username = 'admin'`;
  const { code, answer } = await print();
  assert.deepEqual([code, answer['access_token'], answer['type'], answer['url']], [0, 'stored', 'custom', '']);
  assert.deepEqual(Object.keys(answer).sort(), ['access_token', 'password', 'token_extra', 'type', 'url', 'username']);
});
