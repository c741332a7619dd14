import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { zstdCompressSync } from 'node:zlib';
import { silentLogger } from '@ropewalk/kit';
import { tarOf } from '../testing/harness.ts';
import { restore, withoutPlatform } from './frozen.ts';
import { platformKey } from './install.ts';
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

test('stops unpacking a package beyond a number of bytes, also of zeros behind its files', async () => {
  const files = await tarOf({ 'terraform-provider-x': 'program' });
  const zeros = zstdCompressSync(Buffer.concat([files, Buffer.alloc(4 << 20)]));
  const small = new PackageStore(join(root, 'small'), { maxBytes: 1 << 20 });
  const expected = `h1:${Buffer.alloc(32).toString('base64')}`;
  await assert.rejects(small.unpack(piecesOf(zeros), expected, NAME), /it has more than 1048576 bytes/);
  await assert.rejects(small.unpack(piecesOf(zstdCompressSync(files)), expected, NAME), /has the checksum/);
});

test('restores no package whose names lead out of the folders of the daemon', async () => {
  const archive = zstdCompressSync(await tarOf({ 'terraform-provider-x': 'program' }));
  const names = { address: 'registry.terraform.io/acme/x', version: '1.0.0' };
  const dir = join(root, 'a/b/c/d/session');
  const session = async (more: { address?: string; version?: string }) => {
    const own = new PackageStore(join(root, `a/b/c/d/store-${randomBytes(4).toString('hex')}`));
    await mkdir(dir, { recursive: true });
    const checksum = await checksumOfArchive(archive, own);
    const source = {
      id: 'a'.repeat(64),
      get: async () => undefined,
      file: async <T>(_hash: Uint8Array, read: (pieces: AsyncIterable<Uint8Array>) => Promise<T>) =>
        read(piecesOf(archive)),
    };
    const one = { ...names, checksum, fileHash: Buffer.alloc(32), moreHashes: [], ...more };
    return restore(
      {
        id: source.id,
        platform: platformKey(),
        engine: 'terraform',
        attached: false,
        lockFile: new Uint8Array(),
        moduleFilesHash: new Uint8Array(),
        packages: [one],
      },
      {
        dir,
        source,
        store: own,
        modulesStore: join(root, 'modules'),
        withModules: true,
        attached: false,
        engine: 'terraform',
        log: silentLogger,
      },
    );
  };
  assert.equal((await session({})).complete, true);
  const before = (await readdir(root)).sort();
  for (const more of [
    { address: '../../../../../../../planted/x' },
    { address: 'registry.terraform.io/../../../../../../../../planted' },
    { address: 'registry.terraform.io/acme' },
    { address: 'registry.terraform.io//x' },
    { version: '../../../../../../../planted' },
    { version: '..' },
    { version: '1.0.0/../../../../../../../planted' },
    { version: '' },
  ])
    assert.equal((await session(more)).complete, false, JSON.stringify(more));
  assert.deepEqual((await readdir(root)).sort(), before);
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

/** The checksum of the files of an archive, from the error of a store that expects another. */
async function checksumOfArchive(archive: Uint8Array, own: PackageStore): Promise<string> {
  const none = `h1:${Buffer.alloc(32).toString('base64')}`;
  const err: Error = await own.unpack(piecesOf(archive), none, NAME).then(
    () => assert.fail('it has the checksum'),
    (reason) => reason,
  );
  return /h1:[^,]+/.exec(err.message)![0];
}
