import assert from 'node:assert/strict';
import {
  chmodSync,
  copyFileSync,
  mkdtempSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { AppendedFiles, appendFiles, executableSize } from './appended-files.ts';

let dir: string;
let program: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'appended-'));
  program = join(dir, 'program');
  writeFileSync(program, 'the program');
  writeFileSync(join(dir, 'a'), 'first');
  writeFileSync(join(dir, 'b'), '');
  writeFileSync(join(dir, 'c'), Buffer.from([0, 255, 128]));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));
const append = () =>
  appendFiles(program, { 'first.js': join(dir, 'a'), empty: join(dir, 'b'), __proto__file: join(dir, 'c') });

test('reads the files appended to an executable, and gives the size of the executable itself', () => {
  assert.equal(AppendedFiles.open(program), undefined);
  assert.equal(executableSize(program), 11);
  append();
  const files = AppendedFiles.open(program)!;
  assert.equal(files.executableSize, 11);
  assert.equal(executableSize(program), 11);
  assert.equal(files.read('first.js').toString(), 'first');
  assert.equal(files.read('empty').length, 0);
  assert.deepEqual([...files.read('__proto__file')], [0, 255, 128]);
  assert.deepEqual([files.has('empty'), files.has('toString'), files.has('other')], [true, false, false]);
  assert.throws(() => files.read('toString'), /does not contain "toString"/);
  files.close();
});

test('an upgrade that replaces the executable does not change the files of the open one', () => {
  append();
  const files = AppendedFiles.open(program)!;
  writeFileSync(join(dir, 'new'), 'the next program');
  renameSync(join(dir, 'new'), program);
  assert.equal(files.read('first.js').toString(), 'first');
  files.close();
});

test('an executable without its last bytes has no appended files', () => {
  append();
  truncateSync(program, statSync(program).size - 1);
  assert.equal(AppendedFiles.open(program), undefined);
  writeFileSync(program, Buffer.concat([Buffer.alloc(20, 0xff), Buffer.from('appended')]));
  assert.equal(AppendedFiles.open(program), undefined, 'the length of the index exceeds the file');
});

test('the operating system runs an executable with appended files', {
  skip: process.platform !== 'linux',
}, async () => {
  copyFileSync('/bin/true', program);
  chmodSync(program, 0o755);
  append();
  const { spawnSync } = await import('node:child_process');
  assert.equal(spawnSync(program).status, 0);
});
