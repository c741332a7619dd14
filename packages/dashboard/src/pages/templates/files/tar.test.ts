import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readTar as readOnServer, writeTar as writeOnServer } from '@ropewalk/server/app/evaluate/archive';
import { makeZip } from '@ropewalk/server/app/evaluate/zip';
import { linksInTar, linksInZip } from './links.ts';
import { readTar, type TarFile, writeTar } from './tar.ts';

const file = (path: string, text: string, mode = 0o644): TarFile => ({
  path,
  data: new TextEncoder().encode(text),
  mode,
});
const texts = (files: { path: string; data: Uint8Array }[]) =>
  Object.fromEntries(files.map(({ path, data }) => [path, new TextDecoder().decode(data)]));

const LONG = `${'folder-with-a-long-name/'.repeat(9)}größe.tf`;
const FILES = [
  file('main.tf', 'resource "x" "y" {}\n'),
  file('scripts/run.sh', '#!/bin/sh\n', 0o755),
  file('empty.txt', ''),
  file('exact.bin', 'x'.repeat(512)),
  file('größe/ßü.md', '# 👋\n'),
  file(LONG, 'long'),
];

test('reads what it wrote, with modes, long and non-ASCII paths', () => {
  const read = readTar(writeTar(FILES));
  assert.deepEqual(texts(read), texts(FILES));
  assert.equal(read.find(({ path }) => path === 'scripts/run.sh')!.mode, 0o755);
});

test("the server reads the browser's tar", async () => {
  assert.deepEqual(texts(await readOnServer(writeTar(FILES))), texts(FILES));
});

test("reads the server's tar", async () => {
  assert.deepEqual(texts(readTar(await writeOnServer(FILES))), texts(FILES));
});

test('the same files in another order are the same bytes', () => {
  assert.deepEqual(writeTar(FILES), writeTar([...FILES].reverse()));
});

test('drops a leading ./ and rejects what is not a tar or ends early', () => {
  assert.deepEqual(
    readTar(writeTar([file('./a.tf', '1')])).map(({ path }) => path),
    ['a.tf'],
  );
  assert.throws(() => readTar(new TextEncoder().encode('PK'.repeat(600))), /not a readable tar/);
  assert.throws(() => readTar(writeTar([file('a', 'x'.repeat(2000))]).subarray(0, 1024)), /too early/);
  assert.deepEqual(readTar(new Uint8Array(1024)), []);
});

test('names the links of an archive', async () => {
  const tar = await writeOnServer(
    [{ path: 'main.tf', data: new TextEncoder().encode('x'), mode: 0o644 }],
    [
      { path: 'shared.tf', target: '../shared.tf' },
      { path: LONG, target: 'main.tf' },
    ],
  );
  assert.deepEqual(linksInTar(tar), ['shared.tf', LONG]);
  assert.deepEqual(linksInTar(writeTar(FILES)), []);
  assert.deepEqual(linksInTar(new TextEncoder().encode('PK'.repeat(600))), []);
  const zip = makeZip([
    { path: 'main.tf', data: new TextEncoder().encode('x'), mode: 0o644 },
    { path: 'größe.tf', data: new TextEncoder().encode('main.tf'), mode: 0o644 },
  ]);
  assert.deepEqual(linksInZip(zip), []);
  // the attributes of the second entry of the zip's directory
  zip.writeUInt16LE(0o120777, zip.lastIndexOf(Buffer.from('PK\x01\x02', 'latin1')) + 40);
  assert.deepEqual(linksInZip(zip), ['größe.tf']);
  assert.deepEqual(linksInZip(zip.subarray(0, 60)), []);
});
