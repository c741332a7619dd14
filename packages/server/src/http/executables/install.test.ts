import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { BuildInfoResponse } from '@ropewalk/contract';
import { startTestServer, type TestServer } from '@ropewalk/testkit';
import { createMessage, readKeys, readSignature, verify } from 'openpgp';
import { createSigner } from '../../app/agent/signing-key.ts';

const PROGRAM = '#!/bin/sh\necho "Coder v9.9.9 $1"\n';

let server: TestServer;
let dir: string;
before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'install-'));
  writeFileSync(join(dir, 'program'), PROGRAM, { mode: 0o755 });
  // replaces the executable of this machine
  server = await startTestServer({ findBinary: async (os) => (os === 'windows' ? undefined : join(dir, 'program')) });
});
after(async () => {
  await server.stop();
  rmSync(dir, { recursive: true, force: true });
});

const command = () => `curl -fsSL ${server.url}/install.sh | sh`;

/** Runs the command that a person pastes into a terminal. */
async function paste(line: string, env: NodeJS.ProcessEnv): Promise<{ code: number | null; out: string }> {
  const child = spawn('sh', ['-c', line], { env: { PATH: process.env['PATH'], ...env }, timeout: 30_000 });
  let out = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data: Buffer) => (out += data.toString()));
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { code, out };
}

test('installs the server’s own command with the server’s script, and verifies its checksum', async () => {
  const { code, out } = await paste(`${command()} -s -- --prefix ${dir}/there`, {});
  assert.equal(code, 0, out);
  assert.equal(readFileSync(join(dir, 'there/bin/coder'), 'utf8'), PROGRAM);
  assert.match(out, /^installed .*\/there\/bin\/coder \(Coder v9\.9\.9 version\)\nadd .*\/there\/bin to your PATH/);
});

test('installs into ~/.local if /usr/local is not writable', async () => {
  mkdirSync(join(dir, 'root/usr'), { recursive: true });
  writeFileSync(join(dir, 'root/usr/local'), 'no folder');
  const { code, out } = await paste(command(), { HOME: '/home/ada', DESTDIR: join(dir, 'root') });
  assert.equal(code, 0, out);
  assert.equal(readFileSync(join(dir, 'root/home/ada/.local/bin/coder'), 'utf8'), PROGRAM);
});

test('lists the available executables and their checksums at /bin/', async () => {
  const index = await (await fetch(`${server.url}/bin/`)).text();
  assert.ok(index.includes('href="/bin/coder-linux-amd64"'), index);
  assert.ok(index.includes(command()) && !index.includes('windows'), index);
  assert.match(index, /npm run build all/, 'says how to add the others');
  const missing = await fetch(`${server.url}/bin/coder-windows-amd64.exe`);
  const { message, detail } = (await missing.json()) as { message: string; detail: string };
  assert.equal(missing.status, 404);
  assert.equal(message, 'This server does not have the executable for windows on amd64.');
  assert.match(detail, /npm run build all/);
  const sum = createHash('sha256').update(PROGRAM).digest('hex');
  const sums = await (await fetch(`${server.url}/bin/SHA256SUMS`)).text();
  assert.ok(sums.includes(`${sum}  coder-darwin-arm64\n`) && !sums.includes('windows'), sums);
});

test('signs executables and checksums with one key of the installation, which has its fingerprint as a comment', async () => {
  const get = async (path: string) => {
    const answer = await fetch(`${server.url}/bin/${path}`);
    assert.equal(answer.status, 200, path);
    return Buffer.from(await answer.arrayBuffer());
  };
  const certificate = String(await get('signing-key.asc'));
  const [key] = await readKeys({ armoredKeys: certificate });
  assert.match(certificate, new RegExp(`^Comment: ${key!.getFingerprint().toUpperCase()}$`, 'm'));
  assert.equal(key!.getUserIDs()[0], `Ropewalk deployment ${server.services.deploymentId}`);
  for (const name of ['coder-linux-amd64', 'coder-darwin-arm64', 'SHA256SUMS']) {
    const [file, signature] = await Promise.all([get(name), get(`${name}.asc`)]);
    const checked = await verify({
      message: await createMessage({ binary: new Uint8Array(file) }),
      signature: await readSignature({ armoredSignature: String(signature) }),
      verificationKeys: key!,
    });
    assert.equal(await checked.signatures[0]!.verified, true, name);
  }
  assert.equal((await fetch(`${server.url}/bin/coder-windows-amd64.exe.asc`)).status, 404);
  const stored = await server.services.sql`SELECT value FROM site_config WHERE key = 'openpgp_signing_key'`;
  assert.equal(stored.length, 1);
  // a second server of the installation
  assert.equal(await createSigner(server.services).publicKey(), certificate);
});

test('leads version checks of clients to the command, unless the operator configures another text', async (t) => {
  const { body } = await server.api<BuildInfoResponse>('GET', '/buildinfo', { token: null });
  assert.ok(body.upgrade_message?.includes(command()), body.upgrade_message ?? '');
  assert.equal(body.dashboard_url, server.url);
  const own = await startTestServer({ bare: true, env: { CODER_CLI_UPGRADE_MESSAGE: 'Ask Ada.' } });
  t.after(() => own.stop());
  assert.equal(
    (await own.api<BuildInfoResponse>('GET', '/buildinfo', { token: null })).body.upgrade_message,
    'Ask Ada.',
  );
});
