import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { noteOthers } from './other-versions.ts';

function noted(all: { name: string; version: string }[]): string {
  const stderr = new PassThrough();
  const io = { stdin: new PassThrough(), stdout: new PassThrough(), stderr };
  noteOthers(io, 'v2', all, (names) => `${names}.`);
  return String(stderr.read() ?? '');
}

test('a note names each version of a name once, and a limited number of names', () => {
  assert.equal(noted([{ name: 'new', version: 'v2' }]), '');
  assert.equal(noted([{ name: 'never-connected', version: '' }]), '');
  const two = ['v1', 'v1', 'v0', 'v2'].map((version) => ({ name: 'dev', version }));
  assert.equal(noted(two), "Not the server's version, v2: dev (v1), dev (v0).\n");
  const many = Array.from({ length: 12 }, (_, at) => ({ name: `w${at}`, version: 'v1' }));
  assert.match(noted(many), /: w0 \(v1\), .*, w9 \(v1\) and 2 more\.\n$/);
});
