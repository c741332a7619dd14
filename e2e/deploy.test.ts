import assert from 'node:assert/strict';
import { type SpawnSyncReturns, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { parseDuration } from '@ropewalk/kit';
import { ALLOCATOR } from '@ropewalk/kit/allocator';
import { INSTALLED_VERSION } from '@ropewalk/provisioner/terraform/sums';
import { DRAIN_CANCEL_MS } from '@ropewalk/server/builtin-daemons/drain';
import { options } from '@ropewalk/server/config/options';
import { ensureExecutable } from './harness.ts';

const MEMORY = Object.entries(ALLOCATOR)
  .map(([name, value]) => `${name}=${value}`)
  .join(' ');

const root = dirname(import.meta.dirname);
const script = join(root, 'install.sh');
const onPath = (name: string) =>
  (process.env['PATH'] ?? '')
    .split(':')
    .map((dir) => join(dir, name))
    .find((path) => existsSync(path));
const without = (...names: string[]) => {
  const missing = names.filter((name) => !onPath(name));
  return missing.length > 0 && `no ${missing.join(', ')} on this machine`;
};
const SHELLS: [string, string[]][] = [
  ['dash', []],
  ['busybox', ['sh']],
];

let scratch: string;
let http: Server;
let url: string;
before(async () => {
  scratch = mkdtempSync(join(tmpdir(), 'platform-deploy-'));
  // serves the folders of releases
  http = createServer((request, response) => {
    const file = join(scratch, request.url!);
    if (existsSync(file)) response.end(readFileSync(file));
    else response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
});
after(() => {
  http.close();
  rmSync(scratch, { recursive: true, force: true });
});

/** A release with a small program instead of the real one. */
function release(name: string, changes: { sums?: 'wrong' | 'none' | 'short'; program?: string } = {}): string {
  const dir = join(scratch, name);
  mkdirSync(dir);
  for (const arch of ['amd64', 'arm64'])
    writeFileSync(join(dir, `coder-linux-${arch}`), changes.program ?? `#!/bin/sh\necho "Coder v9.9.9-${name}"\n`);
  for (const unit of globSync('deploy/systemd/*.service', { cwd: root }))
    writeFileSync(join(dir, basename(unit)), readFileSync(join(root, unit)));
  const sums = readdirSync(dir).map((file) => {
    const hash = createHash('sha256').update(readFileSync(join(dir, file)));
    if (changes.sums === 'wrong') hash.update('x');
    return `${hash.digest('hex')}  ${changes.sums === 'short' ? 'another' : file}\n`;
  });
  if (changes.sums !== 'none') writeFileSync(join(dir, 'SHA256SUMS'), sums.join(''));
  return dir;
}

interface Ran {
  status: number | null;
  stdout: string;
  stderr: string;
}

/** Runs install.sh. Not with spawnSync, because this process serves the files that the script fetches. */
async function install(args: string[], env: NodeJS.ProcessEnv = {}, [shell, first] = SHELLS[0]!): Promise<Ran> {
  const child = spawn(onPath(shell) ?? '/bin/sh', [...first, script, ...args], {
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const texts = ['', ''];
  for (const [at, stream] of [child.stdout, child.stderr].entries())
    stream.on('data', (data: Buffer) => {
      texts[at] += data.toString();
    });
  const status = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { status, stdout: texts[0]!, stderr: texts[1]! };
}

const done = ({ status, stdout, stderr }: Ran | SpawnSyncReturns<string>) => {
  assert.equal(status, 0, stdout + stderr);
  return stdout + stderr;
};

/** A PATH with only these programs. */
function pathOf(name: string, programs: string[], own: Record<string, string> = {}): string {
  const dir = join(scratch, name);
  mkdirSync(dir);
  for (const program of programs) symlinkSync(onPath(program)!, join(dir, program));
  for (const [program, text] of Object.entries(own)) writeFileSync(join(dir, program), text, { mode: 0o755 });
  return dir;
}

test('the build is a release with correct checksums, and the program installs from it and runs', async () => {
  const executable = await ensureExecutable();
  const dist = dirname(executable);
  done(spawnSync('sha256sum', ['-c', '--strict', 'SHA256SUMS'], { cwd: dist, encoding: 'utf8' }));
  const sums = readFileSync(join(dist, 'SHA256SUMS'), 'utf8');
  for (const file of [basename(executable), 'install.sh', 'coder.service', 'coder-provisioner.service'])
    assert.match(sums, new RegExp(`^[0-9a-f]{64}  ${file.replaceAll('.', '\\.')}$`, 'm'));
  const prefix = join(scratch, 'real');
  const out = done(await install(['--from', dist, '--prefix', prefix]));
  assert.match(out, /^installed .*\/real\/bin\/coder \(Coder v/);
  const version = spawnSync(join(prefix, 'bin/coder'), ['version'], { encoding: 'utf8' });
  assert.match(done(version), /^Coder v/);
});

for (const shell of SHELLS) {
  test(`install.sh under ${shell[0]} installs from a directory and from a URL over an older version`, {
    skip: without(shell[0]),
  }, async () => {
    const name = `plain-${shell[0]}`;
    const prefix = join(scratch, `to-${name}`);
    const dir = release(name);
    done(await install(['--from', dir, '--prefix', prefix], {}, shell));
    assert.equal(statSync(join(prefix, 'bin/coder')).mode & 0o777, 0o755);
    release(`${name}-next`);
    assert.match(done(await install([`--from=${url}/${name}-next/`, `--prefix=${prefix}`], {}, shell)), /-next\)/);
    assert.deepEqual(readdirSync(join(prefix, 'bin')), ['coder']);
  });
}

test('install.sh uses wget without curl, and fails without both', { skip: without('wget') }, async () => {
  const tools = ['uname', 'mktemp', 'rm', 'cp', 'mv', 'chmod', 'mkdir', 'cut', 'awk', 'head', 'sha256sum', 'sh'];
  release('fetched');
  const args = ['--from', `${url}/fetched`, '--prefix', join(scratch, 'to-fetched')];
  done(await install(args, { PATH: pathOf('with-wget', [...tools, 'wget']) }));
  const { status, stderr } = await install(args, { PATH: pathOf('without', tools) });
  assert.deepEqual([status, stderr], [1, `install.sh: needs curl or wget to fetch ${url}/fetched\n`]);
});

test('install.sh installs nothing that it cannot check or run', async () => {
  const prefix = join(scratch, 'to-nowhere');
  release('wrong', { sums: 'wrong' });
  release('no-sums', { sums: 'none' });
  release('short-sums', { sums: 'short' });
  release('broken', { program: '#!/bin/sh\nexit 1\n' });
  const mips = pathOf('mips', [], { uname: '#!/bin/sh\n[ "$1" = -s ] && echo Linux || echo mips\n' });
  const cases: [string[], RegExp, NodeJS.ProcessEnv?][] = [
    [['--from', join(scratch, 'wrong')], /does not match SHA256SUMS: nothing was installed/],
    [['--from', `${url}/wrong`], /does not match SHA256SUMS/],
    [['--from', `${url}/no-sums`], /could not fetch .*\/no-sums\/SHA256SUMS/],
    [['--from', join(scratch, 'short-sums')], /has no checksum for coder-linux-/],
    [['--from', join(scratch, 'broken')], /does not run on this machine/],
    [['--from', join(scratch, 'absent')], /directory not found: /],
    [['--from', scratch], /file not found: .*coder-linux-/],
    [[], /^Usage: install\.sh --from/],
    [['--from'], /--from needs a value/],
    [['--form', 'x'], /unknown argument: --form/],
    [['--from', scratch, '--prefix', 'here'], /--prefix must be an absolute path/],
    [['--from', scratch], /no release for mips/, { PATH: `${mips}:${process.env['PATH']}` }],
  ];
  for (const [args, message, env] of cases) {
    const all = args.includes('--prefix') ? args : [...args, ...(args.length > 1 ? ['--prefix', prefix] : [])];
    const { status, stderr } = await install(all, env);
    assert.equal(status, 1, args.join(' '));
    assert.match(stderr, message);
  }
  assert.deepEqual(readdirSync(join(prefix, 'bin')), []);
  // a directory without checksums is a local build, so install.sh only warns
  const warned = done(await install(['--from', join(scratch, 'no-sums'), '--prefix', prefix]));
  assert.match(warned, /has no SHA256SUMS, so the files are not verified/);
});

test('install.sh --systemd installs valid units and keeps settings, and --dry-run does nothing', {
  skip: without('systemd-analyze'),
}, async () => {
  const DESTDIR = join(scratch, 'package');
  const prefix = join(scratch, 'opt');
  const args = ['--from', release('units'), '--prefix', prefix, '--systemd'];
  assert.match(done(await install([...args, '--dry-run'], { DESTDIR })), /would install .*coder-provisioner\.service/);
  assert.ok(!existsSync(DESTDIR));
  done(await install(args, { DESTDIR }));
  const settings = join(DESTDIR, 'etc/coder.d/coder-provisioner.env');
  assert.equal(statSync(settings).mode & 0o777, 0o600, 'the file will contain a key');
  writeFileSync(settings, 'CODER_URL=https://coder.example.com\n');
  assert.match(done(await install(args, { DESTDIR })), /kept .*coder-provisioner\.env/);
  assert.match(readFileSync(settings, 'utf8'), /^CODER_URL=/);
  // install the program at the path in the units
  done(await install(['--from', join(scratch, 'units'), '--prefix', prefix]));
  const units = ['coder', 'coder-provisioner'].map((name) => join(DESTDIR, `etc/systemd/system/${name}.service`));
  for (const unit of units) assert.ok(readFileSync(unit, 'utf8').includes(`ExecStart=${prefix}/bin/coder `));
  const verified = spawnSync('systemd-analyze', ['verify', '--man=no', ...units], { encoding: 'utf8' });
  assert.equal(done(verified), '', 'systemd-analyze reports nothing');
  for (const unit of units) assert.match(readFileSync(unit, 'utf8'), /^KillMode=process$/m, 'builds outlive a restart');
});

test('the settings of units and image fit the server and the daemons', () => {
  const unit = (name: string) => readFileSync(join(root, `deploy/systemd/${name}.service`), 'utf8');
  // the server leaves its builds to the next start, which takes no time but needs processes that outlive the server
  assert.match(unit('coder'), /^Environment=CODER_PROVISIONER_DRAIN_TIMEOUT=0$/m);
  for (const name of ['coder', 'coder-provisioner']) {
    assert.match(unit(name), /^KillMode=process$/m);
    assert.ok(unit(name).includes(`\nEnvironment=${MEMORY}\n`), 'glibc gives memory back after a burst of work');
  }
  assert.match(unit('coder-provisioner'), /^TimeoutStopSec=10min$/m);
  // in a container the server waits, and the stop timeout covers the drain, an interrupted Terraform and its state
  const given = [...readFileSync(join(root, 'deploy/Dockerfile'), 'utf8').matchAll(/--stop-timeout (\d+)/g)];
  assert.equal(given.length, 2);
  const needed = (parseDuration(options.provisionerDrainTimeout.default) + DRAIN_CANCEL_MS) / 1_000;
  for (const [, seconds] of given) assert.ok(Number(seconds) >= needed, `${seconds} < ${needed}`);
});

test('shellcheck finds nothing in install.sh', { skip: without('shellcheck') }, () => {
  assert.equal(done(spawnSync('shellcheck', ['--shell=sh', script], { encoding: 'utf8' })), '');
});

/** The instructions of a Dockerfile, with joined continuation lines and without comments. */
function instructions(text: string): { name: string; rest: string }[] {
  const lines = text.split('\n').filter((line) => !/^\s*#/.test(line));
  return lines
    .join('\n')
    .replace(/\\\n/g, ' ')
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [, name, rest] = /^([A-Z]+)\s+(.*)$/s.exec(line) ?? [];
      assert.ok(name, `no instruction: ${line}`);
      return { name, rest: rest! };
    });
}

test('the image copies existing files, its program is server and provisioner, and its steps run in a shell', async (t) => {
  const executable = await ensureExecutable();
  const all = instructions(readFileSync(join(root, 'deploy/Dockerfile'), 'utf8'));
  const of = (name: string) => all.filter((one) => one.name === name).map(({ rest }) => rest);
  const known = 'FROM RUN COPY ARG ENV VOLUME USER WORKDIR EXPOSE STOPSIGNAL ENTRYPOINT'.split(' ');
  assert.deepEqual(
    [...new Set(all.map(({ name }) => name))].filter((name) => !known.includes(name)),
    [],
  );
  assert.equal(all[0]!.name, 'FROM');
  assert.equal(of('FROM')[0], `hashicorp/terraform:${INSTALLED_VERSION} AS terraform`);
  const stages = of('FROM').map((rest) => /AS (\w+)$/.exec(rest)?.[1]);
  const copies = of('COPY').map((rest) => ({
    from: /--from=(\w+)/.exec(rest)?.[1],
    paths: rest.split(/\s+/).filter((word) => !word.startsWith('--')),
  }));
  const [own] = copies.filter(({ from }) => from === undefined);
  for (const { from } of copies) assert.ok(from === undefined || stages.includes(from), `no stage ${from}`);
  const source = own!.paths[0]!.replace(/\$\{TARGETARCH\}/, process.arch === 'arm64' ? 'arm64' : 'amd64');
  assert.equal(join(root, source), executable);
  const ignore = readFileSync(join(root, 'deploy/Dockerfile.dockerignore'), 'utf8').trim().split('\n');
  assert.deepEqual(ignore, ['*', '!dist/coder-linux-*'], 'the builder receives only the program');
  const entrypoint = JSON.parse(of('ENTRYPOINT')[0]!) as string[];
  assert.deepEqual(entrypoint, [own!.paths[1], 'server']);
  assert.equal(own!.paths[1], '/opt/coder', 'the path of --entrypoint in the documented commands');
  assert.ok(of('ENV').includes(MEMORY), 'glibc gives memory back after a burst of work');
  assert.equal(of('USER').at(-1), '1000:1000', 'not root');
  // the program has both commands
  for (const words of [['server'], ['provisioner', 'start']])
    assert.match(done(spawnSync(executable, [...words, '--help'], { encoding: 'utf8' })), /^USAGE:/m);
  // runs the steps with substitutes for the programs that change the machine
  const note = `#!/bin/sh\necho "$(basename "$0") $*" >> "$LOG"\n`;
  const tools = ['apt-get', 'rm', 'groupadd', 'useradd', 'chown', 'mkdir'];
  const PATH = pathOf('steps', ['basename', 'sh'], Object.fromEntries(tools.map((tool) => [tool, note])));
  const LOG = join(scratch, 'steps.log');
  for (const step of of('RUN')) done(spawnSync('/bin/sh', ['-ec', step], { env: { PATH, LOG }, encoding: 'utf8' }));
  const ran = readFileSync(LOG, 'utf8');
  assert.match(ran, /^useradd --uid 1000 --gid coder /m);
  assert.match(ran, /^apt-get install -y --no-install-recommends .*ca-certificates/m);
  await t.test('shellcheck on the steps', { skip: without('shellcheck') }, () => {
    for (const step of of('RUN'))
      assert.equal(done(spawnSync('shellcheck', ['--shell=sh', '-'], { input: step, encoding: 'utf8' })), '');
  });
});
