import assert from 'node:assert/strict';
import { execFile, spawn, spawnSync } from 'node:child_process';
import {
  createReadStream,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { downloadPackages, unpackPackages } from '../scripts/image/debian.ts';
import {
  answers,
  type Connection,
  connectTo,
  ensureExecutable,
  eventually,
  firstUser,
  freePort,
  PERSON,
  tokenOf,
} from './harness.ts';
import { needsNamespaces, OWN } from './image.ts';

// A maintainer releases a version from a clone of this checkout. Its artifacts run by npx, and replace this checkout's build on a
// machine that has nothing else: a root file system with a few Debian packages.

const root = dirname(import.meta.dirname);
const SYSTEM = OWN === 'arm64' ? 'linux-arm64' : 'linux-x64';
const EXECUTABLE = `coder-linux-${OWN}`;
const { version: OLD } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
const VERSION = OLD.replace(/\d+$/, (patch) => String(Number(patch) + 1));

let scratch: string;
let clone: string;
let released: string;
let http: Server;
let url: string;

/** Serves the artifacts of both versions. Everything else is absent, as in a registry that has no such package. */
function serve(folders: Record<string, string>): Promise<void> {
  http = createServer((request, response) => {
    const [, folder, file] = request.url!.split('/');
    const stream = createReadStream(join(folders[folder!] ?? '/nonexistent', file ?? ''));
    stream.once('error', () => response.writeHead(404).end());
    stream.once('open', () => stream.pipe(response));
  });
  return new Promise((resolve) => http.listen(0, '127.0.0.1', resolve));
}

/** The environment of the clone's programs: this test's Node.js, and nothing that npm set for the run of this test. */
const env = (more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv => ({
  PATH: `${dirname(process.execPath)}:${process.env['PATH']}`,
  HOME: join(scratch, 'home'),
  GIT_CONFIG_NOSYSTEM: '1',
  ...more,
});

async function run(command: string, ...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(command, args, { cwd: clone, env: env(), timeout: 400_000 });
  return stdout.trim();
}

/** Copies the checkout as it is now, with links to what npm installed, and commits it. */
async function cloneCheckout(): Promise<void> {
  const list = spawnSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: root });
  const there = list.stdout
    .toString()
    .split('\0')
    .filter((file) => file !== '' && globSync(file, { cwd: root }).length);
  writeFileSync(join(scratch, 'files'), there.join('\0'));
  mkdirSync(clone);
  const copied = spawnSync(
    'sh',
    ['-c', 'tar -c --null --no-recursion -T "$1" | tar -x -C "$2"', '', join(scratch, 'files'), clone],
    {
      cwd: root,
    },
  );
  assert.equal(copied.status, 0, copied.stderr.toString());
  const modules = join(clone, 'node_modules');
  mkdirSync(join(modules, '@ropewalk'), { recursive: true });
  for (const entry of globSync(['*', '.bin'], { cwd: join(root, 'node_modules') }))
    if (entry !== '@ropewalk') symlinkSync(join(root, 'node_modules', entry), join(modules, entry));
  for (const manifest of globSync('packages/*/package.json', { cwd: clone })) {
    const folder = dirname(manifest);
    symlinkSync(join(clone, folder), join(modules, '@ropewalk', basename(folder)));
    const nested = join(root, folder, 'node_modules');
    if (globSync(nested).length > 0) symlinkSync(nested, join(clone, folder, 'node_modules'));
  }
  await run('git', 'init', '--quiet', '--initial-branch=main');
  await run('git', 'config', 'user.name', 'Maintainer');
  await run('git', 'config', 'user.email', 'maintainer@example.com');
  await run('git', 'add', '.');
  await run('git', 'commit', '--quiet', '--no-verify', '-m', 'The checkout');
}

before(async () => {
  scratch = mkdtempSync(join(tmpdir(), 'release-test-'));
  mkdirSync(join(scratch, 'home'));
  clone = join(scratch, 'clone');
  released = join(clone, 'dist/release');
  const executable = await ensureExecutable();
  await cloneCheckout();
  await serve({ old: dirname(executable), new: released });
  url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
});
after(() => {
  http?.close();
  rmSync(scratch, { recursive: true, force: true });
});

test('npm version gives every package, chart and program the version, and dates the changelog', async () => {
  await assert.rejects(run(process.execPath, 'scripts/release/release.ts', SYSTEM), /HEAD does not have the tag v/);
  await run('npm', 'version', 'patch');
  assert.equal(await run('git', 'tag', '--points-at', 'HEAD'), `v${VERSION}`);
  assert.equal(await run('git', 'status', '--porcelain'), '');
  const changed = (await run('git', 'diff', '--name-only', 'HEAD~1')).split('\n');
  for (const file of ['package.json', 'package-lock.json', 'packages/cli/package.json', 'charts/coder/Chart.yaml'])
    assert.ok(changed.includes(file), file);
  assert.equal(await run('npm', 'query', `:root > .workspace:not([version="${VERSION}"])`), '[]');
  const [today] = new Date().toISOString().split('T');
  assert.ok(readFileSync(join(clone, 'CHANGELOG.md'), 'utf8').includes(`## Unreleased\n\n## ${VERSION}, ${today}\n`));
});

test('the release has executables, npm packages, charts, notes, a bill of materials, and checksums of all', async () => {
  writeFileSync(join(clone, 'stray.txt'), '');
  await assert.rejects(run(process.execPath, 'scripts/release/release.ts', SYSTEM), /changes that are not committed/);
  rmSync(join(clone, 'stray.txt'));
  await run('npm', 'run', 'release', '--', SYSTEM);
  const files = globSync('*', { cwd: released });
  for (const name of [
    ...[EXECUTABLE, 'install.sh', 'coder.service', 'coder-provisioner.service', 'sbom.spdx.json', 'NOTES.md'],
    ...[`ropewalk-${VERSION}.tgz`, `ropewalk-${SYSTEM}-${VERSION}.tgz`, `coder-${VERSION}.tgz`],
    ...[`coder-operator-${VERSION}.tgz`, `coder-provisioner-${VERSION}.tgz`],
  ])
    assert.ok(files.includes(name), `${name} of ${files.join(', ')}`);
  const checked = spawnSync('sha256sum', ['-c', '--strict', 'SHA256SUMS'], { cwd: released, encoding: 'utf8' });
  assert.equal(checked.status, 0, checked.stderr);
  assert.equal(checked.stdout.trim().split('\n').length, files.length - 1);
  const { packages } = JSON.parse(readFileSync(join(released, 'sbom.spdx.json'), 'utf8')) as {
    packages: { name: string; checksums?: { checksumValue: string }[] }[];
  };
  const sum = packages.find(({ name }) => name === EXECUTABLE)!.checksums![0]!.checksumValue;
  assert.ok(readFileSync(join(released, 'SHA256SUMS'), 'utf8').includes(`${sum}  ${EXECUTABLE}\n`));
  assert.ok(packages.some(({ name }) => name === 'fastify'));
  const notes = readFileSync(join(released, 'NOTES.md'), 'utf8');
  assert.ok(readFileSync(join(root, 'CHANGELOG.md'), 'utf8').includes(notes.trim()));
  const chart = spawnSync(
    'tar',
    ['-xzOf', `coder-${VERSION}.tgz`, 'coder/Chart.yaml', 'coder/charts/common/Chart.yaml'],
    {
      cwd: released,
      encoding: 'utf8',
    },
  );
  assert.equal(chart.stdout.match(new RegExp(`^version: ${VERSION}$`, 'gm'))?.length, 2, chart.stderr);
});

/** Waits until a server answers, creates the first user, and returns what people use. */
async function reach(address: string, log: () => string): Promise<Connection> {
  await eventually('the server is ready', () => answers(`${address}/readyz`), 120_000).catch((err: Error) => {
    throw new Error(`${err.message}\n${log()}`);
  });
  return connectTo(address);
}

test('the npm packages start with npx, and their server with the bundled database', async () => {
  const port = await freePort();
  const packages = [`ropewalk-${SYSTEM}-${VERSION}.tgz`, `ropewalk-${VERSION}.tgz`].map((file) => join(released, file));
  const npx = ['--yes', ...packages.flatMap((file) => ['--package', file]), '--', 'coder'];
  const place = join(scratch, 'npx');
  mkdirSync(place);
  const own = env({
    npm_config_cache: join(place, 'cache'),
    npm_config_registry: url,
    npm_config_fetch_retries: '0',
    CODER_CONFIG_DIR: join(place, 'config'),
    CODER_CACHE_DIRECTORY: join(place, 'cache-directory'),
    CODER_HTTP_ADDRESS: `127.0.0.1:${port}`,
    CODER_PROVISIONER_DRAIN_TIMEOUT: '0',
  });
  const { stdout } = await promisify(execFile)('npx', [...npx, 'version'], { cwd: place, env: own, timeout: 200_000 });
  assert.match(stdout, new RegExp(`^Coder v\\S+\\+platform\\.${VERSION.replaceAll('.', '\\.')}\\.`));
  const missing = promisify(execFile)('npx', [...npx, 'show'], { cwd: place, env: own, timeout: 200_000 });
  await assert.rejects(missing, ({ code }: { code: number }) => code === 1, 'the exit code of the executable');
  const child = spawn('npx', [...npx, 'server'], {
    cwd: place,
    env: own,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let log = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data: Buffer) => (log += data.toString()));
  const closed = new Promise((resolve) => child.once('close', resolve));
  try {
    await reach(`http://127.0.0.1:${port}`, () => log);
  } finally {
    process.kill(-child.pid!, 'SIGINT');
    await closed;
  }
  // npx itself ends by the signal
  assert.match(log, /stopping signal=SIGINT/);
  assert.doesNotMatch(log, /error/);
});

/** A machine with nothing but a few Debian packages and a user. */
function freshMachine(): string {
  const machine = join(scratch, 'machine');
  mkdirSync(machine);
  unpackPackages(downloadPackages(OWN, join(scratch, 'apt')), machine);
  writeFileSync(join(machine, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/bash\ndev:x:1000:1000::/home/dev:/bin/bash\n');
  writeFileSync(join(machine, 'etc/group'), 'root:x:0:\ndev:x:1000:\n');
  for (const folder of ['tmp', 'root', 'home/dev', 'usr/local/bin'])
    mkdirSync(join(machine, folder), { recursive: true });
  spawnSync('chmod', ['1777', join(machine, 'tmp')]);
  spawnSync('chown', ['1000:1000', join(machine, 'home/dev')]);
  return machine;
}

/** Runs a command line in the machine's own root file system and process namespace. */
function runIn(machine: string, user: 'root' | 'dev', line: string, variables: Record<string, string> = {}) {
  const script = `set -e
    mount --make-rprivate /
    mount --bind "$MACHINE" "$MACHINE"
    mount -t proc proc "$MACHINE/proc"
    mount --rbind /dev "$MACHINE/dev"
    exec chroot ${user === 'dev' ? '--userspec=1000:1000' : ''} "$MACHINE" /usr/bin/env -i "$@"`;
  const given = {
    PATH: '/usr/local/bin:/usr/bin:/bin',
    HOME: user === 'dev' ? '/home/dev' : '/root',
    ...variables,
  };
  const child = spawn(
    'unshare',
    ['--mount', '--pid', '--fork', '--kill-child', 'sh', '-c', script, 'sh']
      .concat(Object.entries(given).map(([name, value]) => `${name}=${value}`))
      .concat('/bin/bash', '-c', `set -o pipefail; cd; ${line}`),
    { env: { PATH: process.env['PATH'], MACHINE: machine }, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let text = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data: Buffer) => (text += data.toString()));
  const closed = new Promise<number | null>((resolve) => child.once('close', resolve));
  return { child, closed, text: () => text };
}

test(
  'one command installs the program on a fresh machine, and the same command upgrades it',
  needsNamespaces,
  async () => {
    const machine = freshMachine();
    const install = async (from: string) => {
      const { closed, text } = runIn(
        machine,
        'root',
        `curl -fsSL ${url}/${from}/install.sh | sh -s -- --from ${url}/${from}`,
      );
      assert.equal(await closed, 0, text());
      return text();
    };
    const withServer = async (use: (connection: Connection, address: string) => Promise<void>) => {
      const address = `127.0.0.1:${await freePort()}`;
      const server = runIn(machine, 'dev', 'exec coder server', {
        CODER_HTTP_ADDRESS: address,
        CODER_PROVISIONER_DRAIN_TIMEOUT: '0',
      });
      try {
        await use(await reach(`http://${address}`, server.text), `http://${address}`);
      } finally {
        // unshare itself ignores signals: its only child is the first process of the machine
        const [first] = readFileSync(`/proc/${server.child.pid}/task/${server.child.pid}/children`, 'utf8').split(' ');
        process.kill(Number(first), 'SIGTERM');
        assert.equal(await server.closed, 0, server.text());
      }
    };
    const escaped = (version: string) => version.replaceAll('.', '\\.');
    assert.match(
      await install('old'),
      new RegExp(`installed /usr/local/bin/coder \\(Coder v\\S+\\+platform\\.${escaped(OLD)}`),
    );
    await withServer(async (connection) => {
      await firstUser(connection);
    });
    assert.match(await install('new'), new RegExp(`\\+platform\\.${escaped(VERSION)}`));
    await withServer(async (connection, address) => {
      const { body } = await connection.api<{ version: string }>('GET', '/buildinfo');
      assert.match(body.version, new RegExp(`\\+platform\\.${escaped(VERSION)}`), address);
      assert.notEqual(await tokenOf(connection, PERSON), '', 'the person of before the upgrade signs in');
    });
  },
);
