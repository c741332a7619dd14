import assert from 'node:assert/strict';
import { test } from 'node:test';
import tar from 'tar-stream';
import { readTar } from './archive.ts';

async function tarOf(...entries: [Partial<tar.Header> & { name: string }, string?][]): Promise<Buffer> {
  const pack = tar.pack();
  for (const [header, content] of entries) pack.entry(header, content ?? '');
  pack.finalize();
  const parts: Buffer[] = [];
  for await (const part of pack as AsyncIterable<Buffer>) parts.push(part);
  return Buffer.concat(parts);
}

test('skips links and devices, and rejects a path that leaves the folder', async () => {
  const archive = await tarOf(
    [{ name: 'main.tf' }, 'x'],
    [{ name: 'passwd.txt', type: 'symlink', linkname: '/etc/passwd' }],
    [{ name: 'again.tf', type: 'link', linkname: 'main.tf' }],
    [{ name: 'null', type: 'character-device' }],
    [{ name: 'sub', type: 'directory' }],
    [{ name: './sub/y.tf' }, 'y'],
  );
  assert.deepEqual(
    (await readTar(archive)).map(({ path, data }) => [path, data.toString()]),
    [
      ['main.tf', 'x'],
      ['sub/y.tf', 'y'],
    ],
  );
  const leaves = { detail: /leaves the archive's folder/ };
  for (const name of ['../x', '/x', 'a/../../x'])
    await assert.rejects(readTar(await tarOf([{ name }, 'x'])), leaves, name);
  await assert.rejects(readTar(await tarOf([{ name: '../x', type: 'symlink', linkname: 'main.tf' }])), leaves);
});
