import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { zstdCompressSync } from 'node:zlib';
import { tarOf } from '../testing/harness.ts';
import { withoutPlatform } from './frozen.ts';
import { checksumOf, PackageStore, packPackage } from './packages.ts';

const root = await mkdtemp(join(tmpdir(), 'packages-'));
after(() => rm(root, { recursive: true, force: true }));

const store = new PackageStore(join(root, 'store'));
const NAME = '1.0.0/linux_amd64';

/** In pieces, as they arrive. */
async function* piecesOf(data: Uint8Array) {
  for (let at = 0; at < data.length; at += 65_536) yield data.subarray(at, at + 65_536);
}

test('stores a package with the checksum that Terraform computes', async () => {
  const dir = join(root, 'provider');
  await mkdir(join(dir, 'docs'), { recursive: true });
  await writeFile(join(dir, 'terraform-provider-x'), 'program');
  await writeFile(join(dir, 'docs/README.md'), 'text');
  const checksum = await checksumOf(dir);
  const sha256 = (text: string) => createHash('sha256').update(text);
  // as sha256sum prints it, sorted by name
  const list = `${sha256('text').digest('hex')}  docs/README.md\n${sha256('program').digest('hex')}  terraform-provider-x\n`;
  assert.equal(checksum, `h1:${sha256(list).digest('base64')}`);
  assert.equal(await store.find(checksum, NAME), undefined);
  const path = join(root, 'archive');
  const size = await packPackage(dir, path, 1 << 20);
  const archive = await readFile(path);
  assert.equal(archive.length, size);
  const kept = await store.unpack(piecesOf(archive), checksum, NAME);
  assert.equal(await store.find(checksum, NAME), kept);
  assert.equal(await checksumOf(kept), checksum);
  assert.equal(await readFile(join(kept, 'docs/README.md'), 'utf8'), 'text');
  assert.equal((await stat(join(kept, 'terraform-provider-x'))).mode & 0o111, 0o111);
  // a second daemon that stores the same gets the same folder
  assert.equal(await store.unpack(piecesOf(archive), checksum, NAME), kept);
});

test('rejects a package with another content, and leaves nothing of it', async () => {
  const archive = zstdCompressSync(await tarOf({ 'terraform-provider-x': 'another' }));
  const expected = `h1:${Buffer.alloc(32).toString('base64')}`;
  await assert.rejects(store.unpack(piecesOf(archive), expected, NAME), /has the checksum h1:.*, not h1:AAAA/);
  await assert.rejects(store.unpack(piecesOf(archive.subarray(0, 40)), expected, NAME));
  const outside = zstdCompressSync(await tarOf({ '../outside': 'x' }));
  await assert.rejects(store.unpack(piecesOf(outside), expected, NAME), /cannot be unpacked: "\.\.\/outside"/);
  assert.equal(await store.find(expected, NAME), undefined);
  assert.deepEqual(
    (await readdir(store.dir)).filter((name) => name.startsWith('.')),
    [],
  );
});

test('packs no package whose archive is larger than the limit', { timeout: 20_000 }, async () => {
  const dir = join(root, 'large');
  await mkdir(dir);
  await writeFile(join(dir, 'program'), randomBytes(3 << 20));
  assert.equal(await packPackage(dir, join(root, 'too-large'), 1 << 20), undefined);
  assert.ok((await packPackage(dir, join(root, 'fits'), 4 << 20))! > 3 << 20);
  await assert.rejects(packPackage(join(root, 'absent'), join(root, 'nothing'), 1 << 20), /ENOENT/);
});

test('keeps the versions and the signed checksums of a lock file for another platform', () => {
  const lock = (...hashes: string[]) =>
    `provider "registry.terraform.io/hashicorp/random" {\n  version = "3.5.1"\n${
      hashes.length > 0 ? `  hashes = [\n${hashes.map((hash) => `    "${hash}",\n`).join('')}  ]\n` : ''
    }}\n`;
  assert.equal(withoutPlatform(Buffer.from(lock('h1:abc=', 'zh:123'))), lock('zh:123'));
  assert.equal(withoutPlatform(Buffer.from(lock('h1:abc='))), lock());
});
