import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readFingerprint, readSums } from './install.ts';

test('reads the list of executables', () => {
  const sum = 'a'.repeat(64);
  assert.deepEqual(readSums(`${sum}  coder-linux-amd64\n${sum}  coder-windows-arm64.exe\nnot a line\n`), [
    { file: 'coder-linux-amd64', system: 'Linux', architecture: 'amd64', sum },
    { file: 'coder-windows-arm64.exe', system: 'Windows', architecture: 'arm64', sum },
  ]);
});

test('reads the fingerprint of a certificate, and none of another text', () => {
  const start = '-----BEGIN PGP PUBLIC KEY BLOCK-----';
  const certificate = `${start}\nComment: ${'0123ABCD'.repeat(5)}\n\nmDME\n`;
  assert.equal(readFingerprint(certificate), '0123 ABCD 0123 ABCD 0123 ABCD 0123 ABCD 0123 ABCD');
  assert.equal(readFingerprint(`${start}\n\nmDME\n`), '');
});
