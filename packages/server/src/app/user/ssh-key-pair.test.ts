import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { GitSSHKey } from '@ropewalk/contract';
import { startTestServer } from '@ropewalk/testkit';
import { newSshKeyPair } from './ssh-key-pair.ts';

for (const [algorithm, type] of [
  ['ed25519', 'ssh-ed25519'],
  ['ecdsa', 'ecdsa-sha2-nistp256'],
  ['rsa4096', 'ssh-rsa'],
] as const) {
  test(`ssh-keygen reads a key pair of ${algorithm}`, async (t) => {
    const dir = mkdtempSync(join(tmpdir(), 'ssh-key-'));
    t.after(() => rmSync(dir, { recursive: true, force: true }));
    const { publicKey, privateKey } = await newSshKeyPair(algorithm);
    assert.ok(publicKey.startsWith(`${type} `));
    const file = join(dir, 'key');
    writeFileSync(file, privateKey, { mode: 0o600 });
    const derived = execFileSync('ssh-keygen', ['-y', '-f', file], { encoding: 'utf8' });
    assert.equal(derived.trim(), publicKey.trim());
  });
}

test('the server creates Git SSH keys with the algorithm of its option', async (t) => {
  const server = await startTestServer({ env: { CODER_SSH_KEYGEN_ALGORITHM: 'ecdsa' } });
  t.after(() => server.stop());
  for (const method of ['GET', 'PUT']) {
    const { status, body } = await server.api<GitSSHKey>(method, '/users/me/gitsshkey');
    assert.equal(status, 200);
    assert.match(body.public_key, /^ecdsa-sha2-nistp256 /);
  }
});
