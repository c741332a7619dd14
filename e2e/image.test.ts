import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { ensureExecutable, eventually, freePort } from './harness.ts';

// The image of this machine's architecture is assembled twice, checked against the OCI specification, unpacked, and started
// as a container runtime would: as its user, in namespaces of its own, with a root file system that nobody can write to.

const script = join(dirname(import.meta.dirname), 'scripts/image/build.ts');
const architecture = process.arch === 'arm64' ? 'arm64' : 'amd64';
const namespaces = spawnSync('unshare', ['--mount', '--pid', '--fork', 'true']).status === 0;
const needsDebian = {
  skip: existsSync('/etc/debian_version') ? false : 'the image is assembled on Debian or Ubuntu',
};
const needsNamespaces = {
  skip: needsDebian.skip || (namespaces && process.getuid?.() === 0 ? false : 'needs root, for namespaces'),
};

interface Descriptor {
  mediaType: string;
  digest: string;
  size: number;
  platform?: { os: string; architecture: string };
}
interface Config {
  architecture: string;
  config: { User: string; Env: string[]; Entrypoint: string[]; WorkingDir: string };
  rootfs: { diff_ids: string[] };
}

const scratch = mkdtempSync(join(tmpdir(), 'image-test-'));
const folders = ['first', 'second'].map((name) => join(scratch, name));
const rootfs = join(scratch, 'root');
let printed: string[];
let config: Config;

before(async () => {
  if (needsDebian.skip) return;
  await ensureExecutable();
  printed = await Promise.all(
    folders.map(async (folder) => {
      const args = [script, architecture, '--out', folder];
      const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 300_000 });
      return stdout.replaceAll(folder, 'OUT');
    }),
  );
});
after(() => rmSync(scratch, { recursive: true, force: true }));

/** The bytes of a blob, whose digest and size must be right. */
function blob({ digest, size }: Descriptor): Buffer {
  const data = readFileSync(join(folders[0]!, 'blobs', digest.replace(':', '/')));
  assert.equal(`sha256:${createHash('sha256').update(data).digest('hex')}`, digest);
  assert.equal(data.length, size);
  return data;
}
const json = <T>(descriptor: Descriptor) => JSON.parse(blob(descriptor).toString()) as T;

test('two runs give the same digests', needsDebian, () => {
  assert.match(printed[0]!, /OUT: sha256:[0-9a-f]{64}/);
  assert.equal(printed[0], printed[1]);
  const names = ['index.json', 'oci-layout', `sbom-${architecture}.spdx.json`];
  for (const name of names)
    assert.deepEqual(readFileSync(join(folders[0]!, name)), readFileSync(join(folders[1]!, name)), name);
});

test('the layout is an OCI image, whose layers have no program with the rights of another user', needsDebian, () => {
  const read = (name: string) => readFileSync(join(folders[0]!, name), 'utf8');
  assert.deepEqual(JSON.parse(read('oci-layout')), { imageLayoutVersion: '1.0.0' });
  const [named] = (JSON.parse(read('index.json')) as { manifests: Descriptor[] }).manifests;
  const [image] = json<{ manifests: Descriptor[] }>(named!).manifests;
  assert.deepEqual(image!.platform, { os: 'linux', architecture });
  const manifest = json<{ config: Descriptor; layers: Descriptor[] }>(image!);
  config = json<Config>(manifest.config);
  assert.equal(config.architecture, architecture);
  assert.deepEqual(config.config.Entrypoint, ['/opt/coder', 'server']);
  mkdirSync(rootfs);
  manifest.layers.forEach((layer, at) => {
    const tar = gunzipSync(blob(layer));
    assert.equal(`sha256:${createHash('sha256').update(tar).digest('hex')}`, config.rootfs.diff_ids[at]);
    const { status, stderr } = spawnSync('tar', ['-xp', '-C', rootfs], { input: tar });
    assert.equal(status, 0, stderr.toString());
  });
  const found = spawnSync('find', [rootfs, '-perm', '/6000', '-type', 'f']).stdout.toString();
  assert.equal(found, '');
});

test('the bill of materials names the program, the Debian and the npm packages', needsDebian, () => {
  const { spdxVersion, packages } = JSON.parse(
    readFileSync(join(folders[0]!, `sbom-${architecture}.spdx.json`), 'utf8'),
  ) as {
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

/** Runs a command in the image, as its user. */
function inImage(command: string[], env: Record<string, string> = {}): ChildProcess {
  const [uid, gid] = config.config.User.split(':');
  const script = `set -e
    mount --make-rprivate /
    mount --bind "$ROOT" "$ROOT"
    mount -t proc proc "$ROOT/proc"
    mount --rbind /dev "$ROOT/dev"
    mount -t tmpfs -o mode=1777 tmp "$ROOT/tmp"
    mount -t tmpfs -o uid=${uid},gid=${gid} home "$ROOT/home/coder"
    mount -o remount,bind,ro "$ROOT"
    exec chroot "$ROOT" /usr/bin/env -i "$@"`;
  writeFileSync(join(scratch, 'run.sh'), script);
  const variables = [...config.config.Env, ...Object.entries(env).map(([name, value]) => `${name}=${value}`)];
  return spawn(
    'unshare',
    [
      '--mount',
      '--pid',
      '--fork',
      'sh',
      join(scratch, 'run.sh'),
      ...variables,
      'chroot',
      `--userspec=${uid}:${gid}`,
      '/',
      ...command,
    ],
    { env: { PATH: process.env['PATH'], ROOT: rootfs }, stdio: ['ignore', 'pipe', 'pipe'] },
  );
}

async function output(command: string[]): Promise<string> {
  const child = inImage(command);
  let text = '';
  for (const stream of [child.stdout!, child.stderr!]) stream.on('data', (data: Buffer) => (text += data.toString()));
  await new Promise((done) => child.once('close', done));
  return text;
}

test(
  'its user has git, certificates and a shell, and cannot write to the root file system',
  needsNamespaces,
  async () => {
    const text = await output([
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
  const port = await freePort();
  const child = inImage(config.config.Entrypoint, {
    CODER_HTTP_ADDRESS: `127.0.0.1:${port}`,
    CODER_PROVISIONER_DAEMONS: '1',
    CODER_PROVISIONER_DRAIN_TIMEOUT: '0',
  });
  let log = '';
  for (const stream of [child.stdout!, child.stderr!]) stream.on('data', (data: Buffer) => (log += data.toString()));
  const closed = new Promise<number | null>((done) => child.once('close', (code) => done(code)));
  try {
    await eventually('the server is ready', () =>
      fetch(`http://127.0.0.1:${port}/readyz`).then(
        (answer) => answer.ok,
        () => {
          assert.equal(child.exitCode, null, log);
          return false;
        },
      ),
    ).catch((err: Error) => {
      throw new Error(`${err.message}\n${log}`);
    });
    const { status } = await fetch(`http://127.0.0.1:${port}/api/v2/buildinfo`);
    assert.equal(status, 200);
  } finally {
    // unshare itself ignores signals: its only child is the first process of the container
    const [first] = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').split(' ');
    process.kill(Number(first), 'SIGTERM');
    assert.equal(await closed, 0, log);
  }
});
