import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { ensureExecutable } from './harness.ts';
import { assemble, FOREIGN, type Image, needsEmulator, output, startsServer, unpack } from './image.ts';

// The image of the other architecture, which is arm64 on most machines, is assembled and started in QEMU.

/** QEMU takes about twenty times as long. */
const READY_MS = 180_000;

const scratch = mkdtempSync(join(tmpdir(), 'image-foreign-'));
let image: Image;

before(async () => {
  if (needsEmulator.skip) return;
  await ensureExecutable(FOREIGN);
  await assemble(FOREIGN, join(scratch, 'image'));
  image = unpack(join(scratch, 'image'), FOREIGN, join(scratch, 'root'));
});
after(() => rmSync(scratch, { recursive: true, force: true }));

test('its programs run', needsEmulator, async () => {
  const text = await output(image, ['/bin/sh', '-c', 'id -u; uname -m; git --version; ssh -V; /opt/coder version']);
  const machine = FOREIGN === 'arm64' ? 'aarch64' : 'x86_64';
  assert.match(text, new RegExp(`^1000\n${machine}\ngit version 2`));
  assert.match(text, /^OpenSSH_/m);
  assert.match(text, /^Coder v/m);
});

test('its entry point starts the server with the bundled database', needsEmulator, async () => {
  await startsServer(image, { CODER_PROVISIONER_DAEMONS: '0' }, READY_MS);
});
