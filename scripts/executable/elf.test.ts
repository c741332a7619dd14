import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { withoutSymbols } from './elf.ts';

test('Node.js runs without its symbols', { skip: process.platform !== 'linux' }, (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'elf-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const node = readFileSync(process.execPath);
  const stripped = withoutSymbols(node);
  assert.ok(stripped.length < 0.85 * node.length, `${stripped.length} of ${node.length} bytes`);
  const file = join(dir, 'node');
  writeFileSync(file, stripped, { mode: 0o755 });
  const code =
    "new Intl.DateTimeFormat('de', { month: 'long' }).format(new Date(0)) + require('node:crypto').randomBytes(2).length";
  assert.equal(spawnSync(file, ['-p', code], { encoding: 'utf8' }).stdout, 'Januar2\n');
  // an executable without symbols has no section that could go, except that of the names
  assert.equal(withoutSymbols(stripped).length, stripped.length);
});

test('rejects other files', () => {
  assert.throws(() => withoutSymbols(Buffer.from('#!/bin/sh\n')), /not a 64-bit little-endian ELF/);
});
