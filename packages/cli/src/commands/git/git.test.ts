import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startTestServer, startTestWorkspace, type TestServer, type TestWorkspace } from '@ropewalk/testkit';
import ssh2 from 'ssh2';
import { invoke } from '../../testing/invoke.ts';

let server: TestServer;
let dev: TestWorkspace;
before(async () => {
  server = await startTestServer();
  dev = await startTestWorkspace(server, 'dev');
});
after(async () => {
  await dev.stop();
  await server.stop();
});

const env = (more: NodeJS.ProcessEnv = {}) => ({
  PATH: process.env['PATH'],
  HOME: dev.home,
  CODER_AGENT_URL: server.url,
  CODER_AGENT_TOKEN: dev.token,
  ...more,
});
const leftovers = () => readdirSync(realpathSync(tmpdir())).filter((name) => name.startsWith('gitssh-'));

test("signs in with the owner's Git key and leaves no key file behind", async (t) => {
  const { body } = await server.api<{ public_key: string }>('GET', '/users/me/gitsshkey');
  const mine = body.public_key.trim().split(' ')[1];
  const pem = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'sec1', format: 'pem' });
  const host = new ssh2.Server({ hostKeys: [String(pem)] }, (client) => {
    client.on('error', () => {});
    client.on('authentication', (auth) => {
      if (auth.method === 'publickey' && auth.key.data.toString('base64') === mine) auth.accept();
      else auth.reject(['publickey']);
    });
    client.on('session', (accept) => {
      accept().on('exec', (yes, _no, { command }) => {
        const channel = yes();
        channel.write(`ran ${command}: `);
        channel.on('data', (chunk: Buffer) => channel.write(chunk));
        channel.on('end', () => {
          channel.exit(3);
          channel.end();
        });
      });
    });
  });
  await new Promise<void>((resolve) => host.listen(0, '127.0.0.1', resolve));
  t.after(() => host.close());
  const { port } = host.address() as AddressInfo;
  const options = ['-F', '/dev/null', '-o', 'StrictHostKeyChecking=no', '-o', 'UserKnownHostsFile=/dev/null'];
  const before = leftovers();
  const argv = ['gitssh', '--', ...options, '-p', String(port), 'git@127.0.0.1', 'git-upload-pack', 'x'];
  const done = await invoke(argv, env(), 'data of git');
  assert.equal(done.stdout, 'ran git-upload-pack x: data of git', done.stderr);
  assert.equal(done.code, 3);

  // somebody whose key is not known there
  await server.api('PUT', '/users/me/gitsshkey');
  const refused = await invoke(argv, env());
  assert.equal(refused.code, 255);
  assert.match(refused.stderr, /register your public key with your Git host:\n\nssh-ed25519 /);
  assert.deepEqual(leftovers(), before);
});

test("offers the user's own keys first", async () => {
  const bin = join(dev.home, 'bin');
  mkdirSync(bin);
  const script =
    '#!/bin/sh\nif [ "$1" = -G ]; then echo "identityfile ~/.ssh/id_mine"; echo "identityfile ~/.ssh/none"; exit 0; fi\necho "$@"; stat -c %a "$4"\n';
  writeFileSync(join(bin, 'ssh'), script);
  chmodSync(join(bin, 'ssh'), 0o755);
  mkdirSync(join(dev.home, '.ssh'));
  writeFileSync(join(dev.home, '.ssh/id_mine'), '');
  const { stdout, stderr } = await invoke(
    ['gitssh', '--', 'git@host', 'x'],
    env({ PATH: `${bin}:${process.env['PATH']}` }),
  );
  const [line, mode] = stdout.split('\n');
  const parts = line!.split(' ');
  assert.deepEqual([parts[0], parts[1], parts[2]], ['-i', join(dev.home, '.ssh/id_mine'), '-i'], stderr);
  assert.deepEqual(parts.slice(4), ['git@host', 'x']);
  assert.equal(mode, '600');
  assert.ok(!existsSync(parts[3]!), 'the key is gone');
});

test("answers Git's questions for names and passwords, and fails without a provider", async () => {
  const asked = await invoke(["Username for 'https://example.com': "], env());
  assert.equal(asked.code, 1);
  assert.match(asked.stderr, /No matching external auth provider/);
  assert.match((await invoke(['gitaskpass', 'what?'], env())).stderr, /Unexpected prompt from Git: "what\?"/);
  const token = await invoke(['external-auth', 'access-token', 'github'], env());
  assert.match(token.stderr, /No matching external auth provider/);
  assert.equal(token.code, 1);
});

test('says outside of a workspace where to run these commands', async () => {
  for (const argv of [
    ['gitssh', 'git@host'],
    ['gitaskpass', "Password for 'https://a.b'"],
    ['external-auth', 'access-token', 'x'],
  ]) {
    const { code, stderr } = await invoke(argv, { HOME: dev.home });
    assert.equal(code, 1);
    assert.match(stderr, /Run this command inside a workspace/);
  }
});

test('signs commits as docs/git.md describes', async () => {
  const docs = readFileSync(join(import.meta.dirname, '../../../../../docs/git.md'), 'utf8');
  const [block] = /(?: {4}.*\n)+/.exec(docs.slice(docs.indexOf('## Signed commits')))!;
  const script = `set -e
${block.replace(/^ {4}/gm, '')}
git init -q r && cd r && git config user.email a@b.c && git config user.name ann
git commit -q --allow-empty -m signed
echo "a@b.c $(cat ~/.ssh/git_signing.pub)" > ../allowed
git -c gpg.ssh.allowedSignersFile=../allowed verify-commit HEAD 2>&1
ls -l ~/.ssh/git_signing`;
  const { stdout, stderr, code } = await invoke(['ssh', 'dev', '--', script], {
    CODER_URL: server.url,
    CODER_SESSION_TOKEN: server.adminToken,
  });
  assert.equal(code, 0, stderr);
  assert.match(stdout, /Good "git" signature for a@b\.c[\s\S]*-rw-------/);
});

test('finds the coder command in sessions and scripts, and Git uses it', async () => {
  const executable = join(dev.home, 'the coder');
  writeFileSync(executable, '#!/bin/sh\necho "coder was run with: $*"\n');
  chmodSync(executable, 0o755);
  const other = await startTestWorkspace(server, 'with-git', { executable, env: { GIT_CONFIG_NOSYSTEM: '1' } });
  const ssh = (command: string) =>
    invoke(['ssh', 'with-git', '--', command], { CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken });
  try {
    assert.equal((await ssh('coder version')).stdout, 'coder was run with: version\n');
    const cloned = await ssh('git ls-remote ssh://git@host.invalid/x 2>&1');
    assert.match(cloned.stdout, /protocol error|coder was run with: gitssh -- .*git@host\.invalid/);
    const asked = await ssh('$GIT_ASKPASS "Username for \'https://a.b\'" 2>&1 || "$GIT_ASKPASS" x');
    assert.match(asked.stdout, /coder was run with: x/);
  } finally {
    await other.stop();
  }
});
