import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { ALLOCATOR } from '@ropewalk/kit/allocator';
import { ensureExecutable } from './harness.ts';
import { assemble, type Image, needsDebian, needsNamespaces, OWN, output, startsServer, unpack } from './image.ts';

// The image of this machine's architecture is assembled twice, checked against the OCI specification, unpacked, and started.

const scratch = mkdtempSync(join(tmpdir(), 'image-test-'));
const folders = ['first', 'second'].map((name) => join(scratch, name));
let printed: string[];
let image: Image;

before(async () => {
  if (needsDebian.skip) return;
  await ensureExecutable();
  printed = await Promise.all(folders.map((folder) => assemble(OWN, folder)));
});
after(() => rmSync(scratch, { recursive: true, force: true }));

test('two runs give the same digests', needsDebian, () => {
  assert.match(printed[0]!, /OUT: sha256:[0-9a-f]{64}/);
  assert.equal(printed[0], printed[1]);
  const names = ['index.json', 'oci-layout', `sbom-${OWN}.spdx.json`];
  for (const name of names)
    assert.deepEqual(readFileSync(join(folders[0]!, name)), readFileSync(join(folders[1]!, name)), name);
});

test('the layout is an OCI image, whose layers have no program with the rights of another user', needsDebian, () => {
  image = unpack(folders[0]!, OWN, join(scratch, 'root'));
  assert.deepEqual(image.config.Entrypoint, ['/opt/coder', 'server']);
  for (const [name, value] of Object.entries(ALLOCATOR)) assert.ok(image.config.Env.includes(`${name}=${value}`), name);
  const found = spawnSync('find', [image.root, '-perm', '/6000', '-type', 'f']).stdout.toString();
  assert.equal(found, '');
});

test('the bill of materials names the program, the Debian and the npm packages', needsDebian, () => {
  const { spdxVersion, packages } = JSON.parse(readFileSync(join(folders[0]!, `sbom-${OWN}.spdx.json`), 'utf8')) as {
    spdxVersion: string;
    packages: { SPDXID: string; name: string; checksums?: object[]; externalRefs?: { referenceLocator: string }[] }[];
  };
  assert.equal(spdxVersion, 'SPDX-2.3');
  const purls = packages.flatMap(({ externalRefs = [] }) => externalRefs.map((each) => each.referenceLocator));
  for (const start of ['pkg:deb/debian/git@', 'pkg:deb/debian/libc6@', 'pkg:npm/fastify@'])
    assert.ok(
      purls.some((purl) => purl.startsWith(start)),
      start,
    );
  assert.ok(packages[0]!.name === 'coder' && packages[0]!.checksums?.length === 1);
  assert.equal(new Set(packages.map(({ SPDXID }) => SPDXID)).size, packages.length);
});

test(
  'its user has git, certificates and a shell, and cannot write to the root file system',
  needsNamespaces,
  async () => {
    const text = await output(image, [
      '/bin/sh',
      '-c',
      'id -u; git --version; curl --version | head -1; grep -c BEGIN /etc/ssl/certs/ca-certificates.crt; touch /opt/x; touch "$HOME/x" && echo written',
    ]);
    assert.match(text, /^1000\ngit version 2/);
    assert.match(text, /^curl \d/m);
    assert.match(text, /^\d{3}$/m);
    assert.match(text, /cannot touch '\/opt\/x': Read-only file system/);
    assert.match(text, /written/);
  },
);

test('its entry point starts the server with the bundled database', needsNamespaces, async () => {
  await startsServer(image, { CODER_PROVISIONER_DAEMONS: '1', CODER_PROVISIONER_DRAIN_TIMEOUT: '0' });
});
