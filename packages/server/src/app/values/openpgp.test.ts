import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { createMessage, readKeys, readSignature, verify } from 'openpgp';
import { detachedSignature, keyFingerprint, newSigningKey, publicKeyBlock } from './openpgp.ts';

const CREATED = 1_700_000_000;
const SIGNED = CREATED + 60;
const content = Buffer.from('an executable, say; '.repeat(10_000));
const hashOf = (bytes: Buffer) => createHash('sha256').update(bytes);

/** Verifies as upstream's extension for Visual Studio Code does: with a stream, and the first signature only. */
async function verifies(certificate: string, signature: string, bytes: Buffer): Promise<boolean> {
  const answer = await verify({
    message: await createMessage({ binary: Readable.toWeb(Readable.from([bytes])) as ReadableStream<Uint8Array> }),
    signature: await readSignature({ armoredSignature: signature }),
    verificationKeys: await readKeys({ armoredKeys: certificate }),
  });
  for await (const _ of answer.data);
  return answer.signatures[0]!.verified.catch(() => false);
}

test('OpenPGP.js verifies signatures of 300 keys, and none of other bytes or of another key', async () => {
  // numbers lose leading zeros, which one of 256 keys and signatures has
  const other = publicKeyBlock(newSigningKey('Somebody else', CREATED));
  for (let turn = 0; turn < 300; turn++) {
    const key = newSigningKey('Ropewalk deployment ü', CREATED + turn);
    const [certificate, signature] = [publicKeyBlock(key), detachedSignature(key, hashOf(content), SIGNED + turn)];
    const [read] = await readKeys({ armoredKeys: certificate });
    assert.equal(read!.getFingerprint().toUpperCase(), keyFingerprint(key));
    assert.equal((await read!.getPrimaryUser()).user.userID!.userID, 'Ropewalk deployment ü');
    assert.equal(await verifies(certificate, signature, content), true);
    if (turn > 0) continue;
    assert.equal(await verifies(certificate, signature, Buffer.from(`${content}!`)), false);
    assert.equal(await verifies(other, signature, content), false);
  }
});

const GPG = ['/usr/bin/gpg', '/usr/local/bin/gpg', '/opt/homebrew/bin/gpg'].find((file) => existsSync(file));

test('GnuPG imports the certificate and verifies the signature', { skip: GPG ? false : 'no gpg here' }, (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'gpg-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const key = newSigningKey('Ropewalk deployment', CREATED);
  writeFileSync(join(dir, 'key.asc'), publicKeyBlock(key));
  writeFileSync(join(dir, 'file'), content);
  writeFileSync(join(dir, 'file.asc'), detachedSignature(key, hashOf(content), SIGNED));
  const gpg = (...args: string[]) => {
    const { status, stderr } = spawnSync(GPG!, ['--homedir', dir, '--batch', '--no-autostart', ...args], {
      encoding: 'utf8',
      env: { PATH: process.env['PATH'], LANG: 'C' },
    });
    return { status, stderr };
  };
  assert.equal(gpg('--import', join(dir, 'key.asc')).status, 0);
  const good = gpg('--verify', join(dir, 'file.asc'), join(dir, 'file'));
  assert.equal(good.status, 0, good.stderr);
  assert.match(good.stderr, /Good signature from "Ropewalk deployment"/);
  assert.ok(good.stderr.replaceAll(' ', '').includes(keyFingerprint(key)), good.stderr);
  writeFileSync(join(dir, 'file'), 'something else');
  const bad = gpg('--verify', join(dir, 'file.asc'), join(dir, 'file'));
  assert.equal(bad.status, 1, bad.stderr);
});
