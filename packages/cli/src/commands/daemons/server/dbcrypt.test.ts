import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { GitSSHKey } from '@ropewalk/contract';
import { eventually, startTestServer, type TestServer } from '@ropewalk/testkit';
import { invoke } from '../../../testing/invoke.ts';

const MAIN = join(import.meta.dirname, '../../../main.ts');
const key = () => randomBytes(32).toString('base64');
const [first, second] = [key(), key()];

let server: TestServer;
let url: string;
before(async () => {
  server = await startTestServer();
  url = server.services.config.postgresUrl;
  await server.api('GET', '/users/me/gitsshkey');
  await server.services.sql`INSERT INTO user_links (user_id, login_type, linked_id, access_token, refresh_token, claims)
    SELECT id, 'oidc', 'subject', 'plain-access', '', '{}' FROM users WHERE username = 'admin'`;
});
after(() => server.stop());

const dbcrypt = (...args: string[]) =>
  invoke(['server', 'dbcrypt', ...args, '--yes'], { CODER_PG_CONNECTION_URL: url });

async function stored(): Promise<string[]> {
  const { sql } = server.services;
  const keys = await sql<{ text: string }[]>`SELECT private_key AS text FROM git_ssh_keys`;
  const links = await sql<{ text: string }[]>`SELECT access_token AS text FROM user_links`;
  return [...keys, ...links].map(({ text }) => text);
}

/** Starts another server on the same database with these keys, and reads the agent's key through it. */
async function privateKeyWith(keys: string[]): Promise<string> {
  const env = { CODER_PG_CONNECTION_URL: url, CODER_EXTERNAL_TOKEN_ENCRYPTION_KEYS: keys.join() };
  const other = await startTestServer({ env, bare: true });
  try {
    const { sql, vault } = other.services;
    const [row] = await sql<{ private_key: never }[]>`SELECT private_key FROM git_ssh_keys`;
    return vault.open(row!.private_key);
  } finally {
    await other.stop();
  }
}

test('encrypts, rotates and decrypts all secrets, all or none', async () => {
  const [plainKey] = await stored();
  const done = await dbcrypt('rotate', '--new-key', first);
  assert.deepEqual([done.code, done.stderr], [0, '']);
  assert.match(done.stdout, /2 secrets have been encrypted/);
  for (const text of await stored()) assert.match(text, /^sealed:[0-9a-f]{16}:[A-Za-z0-9+/=]+$/);
  assert.equal(await privateKeyWith([first]), plainKey);
  await assert.rejects(privateKeyWith([second]), /encrypted with the key [0-9a-f]{16}\. Add it to --external-token/);

  const before = await stored();
  const blind = await dbcrypt('rotate', '--new-key', second);
  assert.deepEqual([blind.code, blind.stdout], [1, '']);
  assert.match(blind.stderr, /Add it to --old-keys/);
  // one secret that cannot be read: the others stay as they were
  const { sql } = server.services;
  const [link] = await sql<{ access_token: string }[]>`SELECT access_token FROM user_links`;
  await sql`UPDATE user_links SET access_token = left(access_token, -8) || 'AAAAAAA='`;
  const broken = await dbcrypt('rotate', '--new-key', second, '--old-keys', first);
  assert.match(broken.stderr, /was changed in the database/);
  await sql`UPDATE user_links SET access_token = ${link!.access_token}`;
  assert.deepEqual(await stored(), before);

  assert.equal((await dbcrypt('rotate', '--new-key', second, '--old-keys', first)).code, 0);
  assert.equal(await privateKeyWith([second]), plainKey);
  assert.match((await dbcrypt('rotate', '--new-key', second)).stdout, /^0 secrets/m, 'nothing is left to do');
  assert.match((await dbcrypt('decrypt', '--keys', second)).stdout, /2 secrets are stored without/);
  assert.deepEqual(await stored(), [plainKey, 'plain-access']);
});

test('a rotation that is killed halfway changes nothing, and the next one completes it', async () => {
  const { sql } = server.services;
  assert.equal((await dbcrypt('rotate', '--new-key', first)).code, 0);
  const before = await stored();
  const key = await privateKeyWith([first]);
  const waits = () => sql`SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
    AND query ILIKE '%user_links%'`;
  const rotate = ['server', 'dbcrypt', 'rotate', '--new-key', second, '--old-keys', first, '--yes'];
  await sql.begin(async (tx) => {
    await tx`SELECT 1 FROM user_links FOR UPDATE`;
    const child = spawn(process.execPath, [MAIN, ...rotate], {
      env: { PATH: process.env['PATH'], HOME: process.env['HOME'], CODER_PG_CONNECTION_URL: url },
      stdio: 'ignore',
    });
    const gone = once(child, 'exit');
    await eventually('the rotation waits for a row', async () => (await waits()).length > 0);
    child.kill('SIGKILL');
    await gone;
  });
  await eventually('its transaction has ended', async () => (await waits()).length === 0);
  assert.deepEqual(await stored(), before);
  assert.equal((await dbcrypt('rotate', '--new-key', second, '--old-keys', first)).code, 0);
  assert.equal(await privateKeyWith([second]), key);
  assert.equal((await dbcrypt('decrypt', '--keys', second)).code, 0);
});

test('a server with a key encrypts new secrets; lost ones can be deleted', async () => {
  const env = { CODER_PG_CONNECTION_URL: url, CODER_EXTERNAL_TOKEN_ENCRYPTION_KEYS: first };
  const other = await startTestServer({ env, bare: true });
  const { body: renewed } = await server.api<GitSSHKey>('GET', '/users/me/gitsshkey');
  const put = await fetch(`${other.url}/api/v2/users/me/gitsshkey`, {
    method: 'PUT',
    headers: { 'Coder-Session-Token': server.adminToken },
  });
  assert.notEqual(((await put.json()) as GitSSHKey).public_key, renewed.public_key);
  await other.stop();
  assert.match((await stored())[0]!, /^sealed:/);
  assert.match((await dbcrypt('delete')).stdout, /1 accounts and keys/);
  assert.deepEqual(await stored(), ['plain-access']);
  assert.equal((await server.api('GET', '/users/me/gitsshkey')).status, 200, 'a new key');
});

test('explains keys that cannot be used, without printing them', async () => {
  for (const [args, words] of [
    [['rotate'], /Missing flag --new-key/],
    [['rotate', '--new-key', 'c2VjcmV0'], /Key 1 of --new-key has 6 bytes, not 32/],
    [['decrypt', '--keys', `${first},c2VjcmV0`], /Key 2 of --keys has 6 bytes/],
  ] as const) {
    const { code, stderr, stdout } = await dbcrypt(...args);
    assert.equal(code, 1);
    assert.match(stderr, words);
    assert.ok(!`${stdout}${stderr}`.includes('c2VjcmV0'));
  }
  await assert.rejects(privateKeyWith(['c2VjcmV0']), /openssl rand -base64 32/);
});
