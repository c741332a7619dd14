// The image that `npm run image` assembles, read by the OCI specification and run as a container runtime would: as its user, in
// its own namespaces, with a root file system that nobody can write to. An image of another architecture runs in QEMU. The
// kernel starts QEMU for its programs only in a separate user namespace, so that nothing changes for the machine (binfmt_misc).
import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { answers, eventually, freePort } from './harness.ts';

export type Architecture = 'amd64' | 'arm64';
export const OWN: Architecture = process.arch === 'arm64' ? 'arm64' : 'amd64';
export const FOREIGN: Architecture = OWN === 'arm64' ? 'amd64' : 'arm64';

const script = join(dirname(import.meta.dirname), 'scripts/image/build.ts');
/** How the kernel recognizes programs of the other architecture, and what runs them. From the Debian package qemu-user-static. */
const BINFMT = `/usr/lib/binfmt.d/qemu-${FOREIGN === 'arm64' ? 'aarch64' : 'x86_64'}.conf`;
const has = (...namespaces: string[]) => spawnSync('unshare', [...namespaces, '--fork', 'true']).status === 0;

export const needsDebian = {
  skip: existsSync('/etc/debian_version') ? false : 'the image is assembled on Debian or Ubuntu',
};
export const needsNamespaces = {
  skip:
    needsDebian.skip || (has('--mount', '--pid') && process.getuid?.() === 0 ? false : 'needs root, for namespaces'),
};
export const needsEmulator = {
  skip:
    needsNamespaces.skip ||
    (existsSync(BINFMT) ? false : 'needs QEMU: install qemu-user-static') ||
    (has('--user') ? false : 'needs user namespaces'),
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

export interface Image extends Config {
  /** The folder with its files. */
  root: string;
  isForeign: boolean;
}

/** Assembles an image. Returns what the script prints, with OUT instead of the folder. */
export async function assemble(architecture: Architecture, folder: string): Promise<string> {
  const args = [script, architecture, '--out', folder];
  const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 300_000 });
  return stdout.replaceAll(folder, 'OUT');
}

/** Unpacks the image of an OCI image layout. Every digest and size must be right. */
export function unpack(folder: string, architecture: Architecture, root: string): Image {
  const blob = ({ digest, size }: Descriptor): Buffer => {
    const data = readFileSync(join(folder, 'blobs', digest.replace(':', '/')));
    assert.equal(`sha256:${createHash('sha256').update(data).digest('hex')}`, digest);
    assert.equal(data.length, size);
    return data;
  };
  const json = <T>(descriptor: Descriptor) => JSON.parse(blob(descriptor).toString()) as T;
  const read = (name: string) => readFileSync(join(folder, name), 'utf8');
  assert.deepEqual(JSON.parse(read('oci-layout')), { imageLayoutVersion: '1.0.0' });
  const [named] = (JSON.parse(read('index.json')) as { manifests: Descriptor[] }).manifests;
  const [image] = json<{ manifests: Descriptor[] }>(named!).manifests;
  assert.deepEqual(image!.platform, { os: 'linux', architecture });
  const manifest = json<{ config: Descriptor; layers: Descriptor[] }>(image!);
  const config = json<Config>(manifest.config);
  assert.equal(config.architecture, architecture);
  mkdirSync(root);
  manifest.layers.forEach((layer, at) => {
    const tar = gunzipSync(blob(layer));
    assert.equal(`sha256:${createHash('sha256').update(tar).digest('hex')}`, config.rootfs.diff_ids[at]);
    const { status, stderr } = spawnSync('tar', ['-xp', '-C', root], { input: tar });
    assert.equal(status, 0, stderr.toString());
  });
  return { ...config, root, isForeign: architecture !== OWN };
}

/** Runs a command in an image, as its user. */
async function start({ root, config, isForeign }: Image, command: string[], env: Record<string, string> = {}) {
  const [uid, gid] = config.User.split(':');
  const file = `${root}.sh`;
  const emulator = `
    read -r mapped
    mount -t binfmt_misc binfmt /proc/sys/fs/binfmt_misc
    cat ${BINFMT} > /proc/sys/fs/binfmt_misc/register`;
  writeFileSync(
    file,
    `set -e
    ${isForeign ? emulator : ''}
    mount --make-rprivate /
    mount --bind "$ROOT" "$ROOT"
    mount -t proc proc "$ROOT/proc"
    mount --rbind /dev "$ROOT/dev"
    mount -t tmpfs -o mode=1777 tmp "$ROOT/tmp"
    mount -t tmpfs -o uid=${uid},gid=${gid} home "$ROOT/home/coder"
    mount -o remount,bind,ro "$ROOT"
    exec chroot "$ROOT" /usr/bin/env -i "$@"`,
  );
  const variables = [...config.Env, ...Object.entries(env).map(([name, value]) => `${name}=${value}`)];
  const child = spawn(
    'unshare',
    [
      ...(isForeign ? ['--user'] : []),
      ...['--mount', '--pid', '--fork', 'sh', file, ...variables],
      ...['chroot', `--userspec=${uid}:${gid}`, '/', ...command],
    ],
    { env: { PATH: process.env['PATH'], ROOT: root }, stdio: [isForeign ? 'pipe' : 'ignore', 'pipe', 'pipe'] },
  );
  if (isForeign) await mapUsers(child);
  return child;
}

/** Gives the user namespace of a process the users of this machine, and lets it continue. */
async function mapUsers({ pid, stdin }: ChildProcess): Promise<void> {
  const own = readlinkSync('/proc/self/ns/user');
  await eventually('it has a user namespace', () => readlinkSync(`/proc/${pid}/ns/user`) !== own);
  for (const map of ['uid_map', 'gid_map']) writeFileSync(`/proc/${pid}/${map}`, '0 0 65536');
  stdin!.end('\n');
}

function collect(child: ChildProcess): () => string {
  let text = '';
  for (const stream of [child.stdout!, child.stderr!]) stream.on('data', (data: Buffer) => (text += data.toString()));
  return () => text;
}

/** What a command prints in an image. */
export async function output(image: Image, command: string[]): Promise<string> {
  const child = await start(image, command);
  const text = collect(child);
  await new Promise((done) => child.once('close', done));
  return text();
}

/** Starts the entry point, waits until the server is ready, and stops it. */
export async function startsServer(image: Image, env: Record<string, string>, timeoutMs = 60_000): Promise<void> {
  const port = await freePort();
  const child = await start(image, image.config.Entrypoint, { CODER_HTTP_ADDRESS: `127.0.0.1:${port}`, ...env });
  const log = collect(child);
  const closed = new Promise<number | null>((done) => child.once('close', (code) => done(code)));
  try {
    await eventually(
      'the server is ready',
      () => {
        assert.equal(child.exitCode, null, log());
        return answers(`http://127.0.0.1:${port}/readyz`);
      },
      timeoutMs,
    ).catch((err: Error) => {
      throw new Error(`${err.message}\n${log()}`);
    });
    const { status } = await fetch(`http://127.0.0.1:${port}/api/v2/buildinfo`);
    assert.equal(status, 200);
  } finally {
    // unshare itself ignores signals: its only child is the first process of the container
    const [first] = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').split(' ');
    process.kill(Number(first), 'SIGTERM');
    assert.equal(await closed, 0, log());
  }
}
