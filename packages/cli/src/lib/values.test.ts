import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { valuesFile } from './values.ts';

test('keeps the characters of numbers in a file of values', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'values-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const path = join(dir, 'values.yaml');
  const read = async (text: string) => {
    writeFileSync(path, text);
    return Object.fromEntries((await valuesFile(path)).map(({ name, value }) => [name, value]));
  };
  assert.deepEqual(
    await read(
      'version: 1.10\nmode: 0755\nbig: 12345678901234567890\nhex: 0x1F\nexp: 1e3\ntext: "1.10"\nyes: true\nnone:\nlist: [a, 1]\n',
    ),
    {
      version: '1.10',
      mode: '0755',
      big: '12345678901234567890',
      hex: '0x1F',
      exp: '1e3',
      text: '1.10',
      yes: 'true',
      none: '',
      list: '["a",1]',
    },
  );
  assert.deepEqual(await read('{"version": 1.10, "on": false}'), { version: '1.10', on: 'false' });
  assert.deepEqual(await read(''), {});
  await assert.rejects(read('a: [1'), /not valid YAML/);
});
