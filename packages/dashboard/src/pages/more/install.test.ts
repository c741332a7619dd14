import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readSums } from './install.ts';

test('reads the list of executables', () => {
  const sum = 'a'.repeat(64);
  assert.deepEqual(readSums(`${sum}  coder-linux-amd64\n${sum}  coder-windows-arm64.exe\nnot a line\n`), [
    { file: 'coder-linux-amd64', system: 'Linux', architecture: 'amd64', sum },
    { file: 'coder-windows-arm64.exe', system: 'Windows', architecture: 'arm64', sum },
  ]);
});
