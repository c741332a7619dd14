import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { processIds } from '@ropewalk/testkit/processes';
import {
  coderOutput,
  ensureExecutable,
  eventually,
  type Finished,
  freePort,
  type ServerProcess,
  startCoderServer,
  startFirstWorkspace,
} from './harness.ts';

// Tests OpenSSH's own client with the configuration that config-ssh writes.
let server: ServerProcess;
let dir: string;
let config: string;
const run = (...args: string[]) => coderOutput(args, { env: server.env, cwd: dir });

/** Runs a program of OpenSSH in the environment of a shell without the server's variables. */
const openssh = (program: string, ...args: string[]): Promise<Finished> =>
  runIn(program, ['-F', config, ...args], { PATH: process.env['PATH'], HOME: dir });

async function runIn(program: string, args: string[], env: NodeJS.ProcessEnv): Promise<Finished> {
  const child = spawn(program, args, { cwd: dir, env, stdio: ['ignore', 'pipe', 'pipe'], timeout: 60_000 });
  const [out, err]: [Buffer[], Buffer[]] = [[], []];
  child.stdout.on('data', (data: Buffer) => out.push(data));
  child.stderr.on('data', (data: Buffer) => err.push(data));
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { code, stdout: Buffer.concat(out).toString(), stderr: Buffer.concat(err).toString() };
}

before(async () => {
  await ensureExecutable();
  dir = mkdtempSync(join(tmpdir(), "platform ssh's "));
  config = join(dir, 'ssh', 'config');
  server = await startCoderServer();
  await startFirstWorkspace(server, dir);
  await run('config-ssh', '--ssh-config-file', config, '--yes', '-o', 'ServerAliveInterval=7');
});
after(async () => {
  await server.stop();
  rmSync(dir, { recursive: true, force: true });
});

test('OpenSSH reads the configuration as intended', async () => {
  assert.equal(statSync(config).mode & 0o777, 0o600);
  for (const host of ['coder.dev', 'dev.coder']) {
    const { stdout } = await openssh('ssh', '-G', host);
    assert.match(stdout, /^serveraliveinterval 7$/m, host);
    assert.match(stdout, /^proxycommand .* ssh --stdio /m, host);
    assert.match(stdout, /^userknownhostsfile \/dev\/null$/m, host);
  }
  assert.doesNotMatch((await openssh('ssh', '-G', 'example.com')).stdout, /proxycommand/);
});

test('ssh works with each form of the name and returns output and exit code', { timeout: 120_000 }, async () => {
  const hosts = ['coder.dev', 'coder.dev.main', 'coder.admin--dev', 'dev.coder', 'main.dev.admin.coder'];
  const all = await Promise.all(hosts.map((host) => openssh('ssh', host, 'echo here; exit 7')));
  for (const [i, done] of all.entries()) assert.deepEqual(done, { code: 7, stdout: 'here\n', stderr: '' }, hosts[i]!);
  assert.equal((await openssh('ssh', 'coder.dev', 'true')).code, 0);
  const absent = await openssh('ssh', 'coder.nope', 'true');
  assert.equal(absent.code, 255);
  assert.match(absent.stderr, /Workspace "nope" not found/);
});

test('scp copies a file in both directions', { timeout: 120_000 }, async () => {
  const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * 31) % 251));
  writeFileSync(join(dir, 'here.bin'), bytes);
  for (const args of [
    ['here.bin', 'coder.dev:there.bin'],
    ['coder.dev:there.bin', 'back.bin'],
  ]) {
    const done = await openssh('scp', '-q', ...args);
    assert.equal(done.code, 0, done.stderr);
  }
  assert.ok(readFileSync(join(dir, 'back.bin')).equals(bytes));
});

const absent = (name: string) => (spawnSync(name, ['--version']).error ? `no ${name} on this machine` : false);
/** The ssh command for programs that start ssh themselves. The folder's name has a space and a quote. */
const sshCommand = () => `ssh -F "${config}"`;

test('rsync copies a tree in both directions, and then only changed files', {
  timeout: 120_000,
  skip: absent('rsync'),
}, async () => {
  const tree = join(dir, 'tree');
  mkdirSync(join(tree, 'deep/er'), { recursive: true });
  for (let i = 0; i < 40; i++)
    writeFileSync(join(tree, i % 2 ? 'deep' : 'deep/er', `file ${i}`), `content ${i}\n`.repeat(i * 50));
  const rsync = (...args: string[]) =>
    runIn('rsync', ['-e', sshCommand(), '-a', '--stats', ...args], { PATH: process.env['PATH'], HOME: dir });
  const there = await rsync('--delete', `${tree}/`, 'coder.dev:synced/');
  assert.equal(there.code, 0, there.stderr);
  const back = await rsync('coder.dev:synced/', join(dir, 'back'));
  assert.equal(back.code, 0, back.stderr);
  assert.equal(spawnSync('diff', ['-r', tree, join(dir, 'back')]).status, 0);
  const again = await rsync('--delete', `${tree}/`, 'coder.dev:synced/');
  assert.match(again.stdout, /Number of regular files transferred: 0/);
});

test('git clones from a workspace and pushes to it', { timeout: 120_000, skip: absent('git') }, async () => {
  const made = await openssh(
    'ssh',
    'coder.dev',
    'rm -rf repo.git; git init -q --bare -b main repo.git; cd repo.git; pwd',
  );
  assert.equal(made.code, 0, made.stderr);
  const env = { PATH: process.env['PATH'], HOME: dir, GIT_SSH_COMMAND: sshCommand(), GIT_CONFIG_NOSYSTEM: '1' };
  const git = async (...args: string[]) => {
    const done = await runIn('git', ['-c', 'user.name=Ann', '-c', 'user.email=ann@example.com', ...args], env);
    assert.equal(done.code, 0, `git ${args.join(' ')}: ${done.stderr}`);
    return done.stdout;
  };
  await git('clone', '-q', `coder.dev:${made.stdout.trim()}`, 'clone');
  writeFileSync(join(dir, 'clone/readme'), Buffer.alloc(2_000_000, 'text\n'));
  await git('-C', 'clone', 'add', '.');
  await git('-C', 'clone', 'commit', '-q', '-m', 'first');
  await git('-C', 'clone', 'push', '-q', 'origin', 'HEAD:main');
  const { stdout } = await openssh('ssh', 'coder.dev', 'git -C repo.git log --format=%s main');
  assert.equal(stdout, 'first\n');
});

test('runs many sessions and forwards over one connection, as editors do', { timeout: 120_000 }, async () => {
  const control = join(tmpdir(), `c-${process.pid}`);
  const shared = ['-o', 'ControlMaster=auto', '-o', `ControlPath=${control}`, '-o', 'ControlPersist=30'];
  const first = await openssh('ssh', ...shared, 'coder.dev', 'true');
  assert.equal(first.code, 0, first.stderr);
  try {
    const all = await Promise.all(
      Array.from({ length: 9 }, (_, i) =>
        openssh('ssh', ...shared, 'coder.dev', `head -c 3000000 /dev/zero | wc -c; exit ${i}`),
      ),
    );
    assert.deepEqual(
      all.map(({ code, stdout }) => [code, stdout.trim()]),
      all.map((_, i) => [i, '3000000']),
    );
    const socks = await freePort();
    const forward = await openssh('ssh', ...shared, '-O', 'forward', '-D', `127.0.0.1:${socks}`, 'coder.dev');
    assert.equal(forward.code, 0, forward.stderr);
    const { status, stdout } = spawnSync(
      'curl',
      ['-sS', '--max-time', '60', '--socks5-hostname', `127.0.0.1:${socks}`, `${server.url}/healthz`],
      { encoding: 'utf8' },
    );
    assert.deepEqual([status, stdout], [0, 'OK']);
  } finally {
    await openssh('ssh', ...shared, '-O', 'exit', 'coder.dev');
  }
});

test('a killed ssh leaves none of our processes', { timeout: 120_000 }, async () => {
  const child = spawn('ssh', ['-F', config, 'coder.dev', 'echo ready; sleep 300'], {
    env: { PATH: process.env['PATH'], HOME: dir },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  await once(child.stdout, 'data');
  const stdioCommands = () =>
    processIds().filter((pid) => {
      try {
        const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
        return words.includes('--stdio') && words.includes(server.configDir);
      } catch {
        return false;
      }
    });
  // that of the shared connection before may still be ending
  await eventually('coder ssh --stdio runs once', async () => stdioCommands().length === 1);
  child.kill('SIGKILL');
  await eventually('coder ssh --stdio has ended', async () => stdioCommands().length === 0);
});

test('--remove removes the hosts', async () => {
  await run('config-ssh', '--ssh-config-file', config, '--yes', '--remove');
  assert.ok(existsSync(config));
  assert.equal(readFileSync(config, 'utf8'), '');
});
