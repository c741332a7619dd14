import assert from 'node:assert/strict';
import { test } from 'node:test';
import { unzipSync, zipSync } from 'fflate';
import { type Link, readZip } from './archive.ts';
import { eachInZip, makeZip } from './zip.ts';

const bytes = (text: string) => new TextEncoder().encode(text);

test('reads zips of other programs, and writes zips that they can read', () => {
  const files = { 'main.tf': bytes('terraform {}\n'.repeat(100)), 'modules/é 😀.tf': bytes('x'), empty: bytes('') };
  const list = Object.entries(files).map(([path, data]) => ({ path, data, mode: 0o755 }));
  const made = makeZip(list);
  const theirs = Object.fromEntries(
    Object.entries(unzipSync(made)).map(([path, data]) => [path, new Uint8Array(data)]),
  );
  assert.deepEqual(theirs, files);
  for (const level of [0, 6] as const) {
    const ours = readZip(zipSync(files, { level })).map(({ path, data }) => [path, new Uint8Array(data)]);
    assert.deepEqual(Object.fromEntries(ours), files);
  }
  const modes: number[] = [];
  eachInZip(made, ({ mode }) => modes.push(mode));
  assert.deepEqual(modes, [0o100755, 0o100755, 0o100755]);
});

test('rejects or reads a zip with any broken byte, and never crashes', () => {
  const zip = makeZip([
    { path: 'a.tf', data: bytes('terraform {}'.repeat(20)), mode: 0o644 },
    { path: 'b/', data: bytes(''), mode: 0o755 },
    { path: 'b/c.tf', data: bytes('stored'), mode: 0o644 },
  ]);
  for (let at = 0; at < zip.length; at++) {
    for (const change of [0x01, 0x80, 0xff]) {
      const broken = Buffer.from(zip);
      broken[at]! ^= change;
      try {
        readZip(broken);
      } catch (err) {
        assert.equal((err as Error).name, 'AppError', String(err));
      }
    }
    assert.throws(() => readZip(zip.subarray(0, at)), { name: 'AppError' });
  }
});

test('does not unpack links, encrypted files, overlapping entries and unknown methods', () => {
  const entry = { path: 'a.tf', data: bytes('terraform {}'), mode: 0o644 };
  const zip = () => makeZip([entry]);
  const central = zip().indexOf(Buffer.from('PK\x01\x02', 'latin1'));
  const changed = (at: number, value: number) => {
    const copy = zip();
    copy.writeUInt16LE(value, at);
    return copy;
  };
  assert.throws(() => readZip(changed(central + 8, 1)), { detail: /"a\.tf" is encrypted/ });
  assert.throws(() => readZip(changed(central + 10, 12)), { detail: /unknown method 12/ });
  const links: Link[] = [];
  assert.deepEqual(readZip(changed(central + 40, 0o120777), links), []);
  assert.deepEqual(links, [{ path: 'a.tf', target: 'terraform {}' }]);
  // a directory whose entries share the same bytes
  const one = zip();
  const directory = one.subarray(central, one.length - 22);
  const end = Buffer.from(one.subarray(one.length - 22));
  end.writeUInt16LE(200, 10);
  const large = Buffer.concat([one.subarray(0, central), ...Array.from({ length: 200 }, () => directory), end]);
  assert.ok(200 * entry.data.length < large.length);
  const packed = Math.ceil(large.length / 200) + 1;
  for (let i = 0; i < 200; i++) large.writeUInt32LE(packed, central + i * directory.length + 20);
  assert.throws(() => eachInZip(large, () => {}), /its entries overlap/);
});
