import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { User } from '@ropewalk/contract';
import { startTestServer, type TestServer } from '@ropewalk/testkit';
import { invoke } from '../../testing/invoke.ts';

let server: TestServer;
let home: string;
before(async () => {
  server = await startTestServer();
  home = mkdtempSync(join(tmpdir(), 'session-'));
});
after(async () => {
  rmSync(home, { recursive: true, force: true });
  await server.stop();
});

const coder = (...argv: string[]) => invoke(argv, { HOME: home });

test('prints the stored token, only for the server that it is for', async () => {
  const before = await coder('login', 'token');
  assert.deepEqual([before.code, before.stdout], [1, '']);
  assert.match(before.stderr, /^error: You are not logged in\. Log in with: coder login <url>\n$/);

  const login = await coder('login', server.url, '--token', server.adminToken, '--use-token-as-session');
  assert.equal(login.code, 0, login.stderr);
  assert.deepEqual(await coder('login', 'token'), { code: 0, stdout: `${server.adminToken}\n`, stderr: '' });
  assert.equal((await coder('login', 'token', '--url', `${server.url}/`)).stdout, `${server.adminToken}\n`);
  assert.equal((await coder('login', 'token', '--token', 'given')).stdout, 'given\n');

  const other = await coder('login', 'token', '--url', 'https://other.example.com');
  assert.deepEqual([other.code, other.stdout], [1, '']);
  assert.equal(
    other.stderr,
    `error: The stored session token is for ${server.url}, not https://other.example.com. Log in with: coder login https://other.example.com\n`,
  );
});

test('shows who is logged in as text, as a table, and in the form of upstream’s JSON', async () => {
  const { body: user } = await server.api<User>('GET', '/users/me');
  const env = { CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken };
  const whoami = async (...flags: string[]) => {
    const { code, stdout, stderr } = await invoke(['whoami', ...flags], env);
    assert.deepEqual([code, stderr], [0, ''], flags.join(' '));
    return stdout;
  };
  assert.equal(await whoami(), `You are admin (${user.email}) at ${server.url}.\n`);
  assert.deepEqual(JSON.parse(await whoami('-o', 'json')), [
    {
      url: server.url,
      username: 'admin',
      user_id: user.id,
      organization_ids: user.organization_ids,
      roles: { '*': ['Owner'] },
    },
  ]);
  const [heading, row] = (await whoami('-o', 'table')).split('\n');
  assert.deepEqual(heading!.split(/ {2,}/), ['URL', 'USERNAME', 'ID']);
  assert.deepEqual(row!.split(/ {2,}/), [server.url, 'admin', user.id]);
  assert.equal(
    await whoami('-o', 'table', '-c', 'orgs,Roles'),
    `ORGS${' '.repeat(34)}ROLES\n${user.organization_ids[0]}  *:Owner\n`,
  );
});
