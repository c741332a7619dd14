import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { startTestServer, type TestServer } from '@ropewalk/testkit';
import { keyringOf, macKeychain, systemKeyring } from '../../framework/keyring.ts';
import { invoke } from '../../testing/invoke.ts';
import { startKeyring, type TestKeyring, withoutKeyring } from '../../testing/keyring.ts';

let server: TestServer;
let home: string;
before(async () => {
  server = await startTestServer();
  home = mkdtempSync(join(tmpdir(), 'keyring-'));
});
after(async () => {
  rmSync(home, { recursive: true, force: true });
  await server.stop();
});

const configDir = () => join(home, '.config/coderv2');
/** The default config directory: others do not use the keyring. */
const coder = (env: NodeJS.ProcessEnv, ...argv: string[]) =>
  invoke(argv, { HOME: home, PATH: process.env['PATH'], CODER_CONFIG_DIR: undefined, ...env });
const login = (env: NodeJS.ProcessEnv, ...flags: string[]) =>
  coder(env, 'login', server.url, '--token', server.adminToken, '--use-token-as-session', ...flags);
/** Everything that the commands stored in files. */
const stored = () =>
  readdirSync(configDir())
    .map((name) => readFileSync(join(configDir(), name), 'utf8'))
    .join('\n');

describe('the keyring of a Linux desktop', { skip: withoutKeyring() }, () => {
  let keyring: TestKeyring;
  before(async () => {
    keyring = await startKeyring();
  });
  after(() => keyring.stop());

  test('has the session token, which no file has', async () => {
    const done = await login({ ...keyring.env, CODER_USE_KEYRING: 'true' });
    assert.deepEqual([done.code, done.stderr], [0, '']);
    assert.ok(!stored().includes(server.adminToken));
    assert.equal((await coder(keyring.env, 'login', 'token')).stdout, `${server.adminToken}\n`);
    assert.match((await coder(keyring.env, 'whoami')).stdout, /^You are admin/);
    assert.match((await coder(keyring.env, 'whoami', '--url', 'http://127.0.0.1:1')).stderr, /not logged in/);
    const without = await coder({ DBUS_SESSION_BUS_ADDRESS: 'unix:path=/nonexistent' }, 'whoami');
    assert.equal(without.code, 1);
    assert.match(without.stderr, /^error: The keyring of this machine cannot be used: secret-tool: /);
  });

  test('a login without the flag moves the token to a file', async () => {
    assert.equal((await login(keyring.env, '--use-keyring')).code, 0);
    assert.equal((await login(keyring.env)).code, 0);
    assert.equal(readFileSync(join(configDir(), 'session'), 'utf8'), server.adminToken);
    assert.match((await coder({ DBUS_SESSION_BUS_ADDRESS: 'unix:path=/nonexistent' }, 'whoami')).stdout, /^You are/);
  });

  test('keeps the tokens of other servers, and forgets this one at logout', async () => {
    const ring = systemKeyring({ PATH: process.env['PATH'], ...keyring.env }, 'linux');
    await ring.write('https://Other.example.com:8443/', 'of another server');
    assert.equal((await login(keyring.env, '--use-keyring')).code, 0);
    assert.equal(await ring.read(server.url), server.adminToken);
    const { body } = await server.api<{ key: string }>('POST', '/users/me/keys');
    await ring.write(server.url, body.key);
    const left = await coder(keyring.env, 'logout', '--yes');
    assert.deepEqual([left.code, left.stderr], [0, '']);
    assert.equal(await ring.read(server.url), '');
    assert.equal(await ring.read('https://other.example.com:8443'), 'of another server');
    await ring.remove('https://other.example.com:8443');
    assert.equal(await ring.read('https://other.example.com:8443'), '');
    assert.deepEqual(readdirSync(configDir()), []);
  });
});

test('uses a file with a warning where it cannot use a keyring', async () => {
  const refused = async (env: NodeJS.ProcessEnv, message: RegExp) => {
    const { code, stderr } = await login({ CODER_USE_KEYRING: 'true', ...env });
    assert.equal(code, 0);
    assert.match(stderr, message);
  };
  await refused(
    { DBUS_SESSION_BUS_ADDRESS: 'unix:path=/nonexistent', PATH: '/nonexistent' },
    /^Warning: The keyring of this machine cannot be used: secret-tool is not installed\. The session token will be in a file/,
  );
  assert.equal(readFileSync(join(configDir(), 'session'), 'utf8'), server.adminToken);
  await refused({ CODER_CONFIG_DIR: join(home, 'other') }, /no effect with another config directory/);
  assert.ok(existsSync(join(home, 'other/session')));
  assert.throws(() => systemKeyring({}, 'win32'), /cannot use the one of Windows yet/);
});

test('passes tokens to the keychain of macOS through a pipe, in the form of upstream’s programs', async () => {
  // macOS cannot run here: this program records what it is asked for
  const log = join(home, 'asked');
  const program = join(home, 'security');
  const entry = join(home, 'entry');
  writeFileSync(
    program,
    `#!/bin/sh
echo "$@" >> '${log}'
case $1 in
  -i) read -r line && echo "$line" > '${entry}' ;;
  find-generic-password) [ -f '${entry}' ] && sed 's/.* //' '${entry}' || { echo "could not be found" >&2; exit 44; } ;;
  delete-generic-password) rm '${entry}' ;;
esac
`,
    { mode: 0o755 },
  );
  const ring = keyringOf(macKeychain({ PATH: process.env['PATH'] }, program));
  assert.equal(await ring.read('https://a.example.com'), '');
  await ring.write('https://a.example.com', 'secret-token');
  const [, value] =
    /^add-generic-password -U -s coder-v2-credentials -a coder-login-credentials -w (\S+)\n$/.exec(
      readFileSync(entry, 'utf8'),
    ) ?? [];
  assert.deepEqual(JSON.parse(Buffer.from(value!, 'base64').toString()), {
    'a.example.com': { coder_url: 'a.example.com', api_token: 'secret-token' },
  });
  assert.equal(await ring.read('https://a.example.com/'), 'secret-token');
  await assert.rejects(ring.write('https://b.example.com', 'x'.repeat(4_000)), /no room for another session/);
  await ring.remove('https://a.example.com');
  assert.ok(!existsSync(entry));
  assert.ok(!/secret|[A-Za-z0-9+/=]{40}/.test(readFileSync(log, 'utf8')), 'no command line has a token');
});
