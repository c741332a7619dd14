import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { makeTestCloud } from '@ropewalk/server/app/agent/identity/testing/fixtures';
import { startTestServer, startTestWorkspace } from '@ropewalk/testkit';
import { invoke } from '../../testing/invoke.ts';

const FORGE = {
  CODER_EXTERNAL_AUTH_0_ID: 'forge',
  CODER_EXTERNAL_AUTH_0_TYPE: 'custom',
  CODER_EXTERNAL_AUTH_0_CLIENT_ID: 'id',
  CODER_EXTERNAL_AUTH_0_CLIENT_SECRET: 'secret',
  CODER_EXTERNAL_AUTH_0_AUTH_URL: 'http://127.0.0.1:1/authorize',
  CODER_EXTERNAL_AUTH_0_TOKEN_URL: 'http://127.0.0.1:1/token',
};

test('prints the whole answer of the server as JSON, and where to sign in', async (t) => {
  const server = await startTestServer({ env: FORGE });
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
  assert.deepEqual(
    Object.keys(answer).sort(),
    // upstream's time without a value stands for a token that does not expire
    ['access_token', 'expires_at', 'password', 'token_extra', 'type', 'url', 'username'],
  );
});

test("proves by the machine's cloud which of its agents it is", async (t) => {
  const cloud = makeTestCloud();
  const document = JSON.stringify({ instanceId: 'i-7', region: 'eu-test-1' });
  const metadata = createServer(({ url = '' }, answer) => {
    if (url.endsWith('/document')) answer.end(document);
    else answer.end(url.endsWith('/signature') ? cloud.awsSign(document) : 'session');
  });
  metadata.listen(0, '127.0.0.1');
  await once(metadata, 'listening');
  const server = await startTestServer({
    env: { ...FORGE, CODER_AWS_INSTANCE_IDENTITY_CERTIFICATES: cloud.aws },
  });
  const dev = await startTestWorkspace(server, 'dev');
  t.after(async () => {
    await dev.stop();
    await server.stop();
    metadata.close();
    metadata.closeAllConnections();
    cloud.remove();
  });
  const { sql } = server.services;
  await sql`UPDATE workspace_agents SET auth_instance_id = 'i-7' WHERE auth_token = ${dev.token}`;
  const print = (...flags: string[]) =>
    invoke(['external-auth', 'access-token', 'forge', ...flags], {
      CODER_AGENT_URL: server.url,
      CODER_AGENT_METADATA_URL: `http://127.0.0.1:${(metadata.address() as AddressInfo).port}`,
    });
  const aws = ['--auth', 'aws-instance-identity'];
  const { code, stdout, stderr } = await print(...aws);
  assert.deepEqual([code, stdout], [1, `${server.accessUrl}/external-auth/forge\n`], stderr);
  const [agent] = await sql<{ name: string }[]>`SELECT name FROM workspace_agents WHERE auth_token = ${dev.token}`;
  assert.equal((await print(...aws, '--agent-name', agent!.name)).stdout, stdout);
  const other = await print(...aws, '--agent-name', 'other');
  assert.deepEqual([other.code, other.stdout], [1, '']);
  assert.match(other.stderr, /No agent "other" is registered for the instance "i-7"/);
  assert.match((await print('--auth', 'moon')).stderr, /"moon" is not supported: use one of token, aws-instance/);
  assert.match((await print()).stderr, /CODER_AGENT_TOKEN are not set/);
});
