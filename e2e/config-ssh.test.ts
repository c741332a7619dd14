import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import {
  coder,
  ensureExecutable,
  eventually,
  type Finished,
  PERSON,
  type ServerProcess,
  startCoderServer,
} from './harness.ts';

// OpenSSH's own client, as people run it, through what config-ssh has written
let server: ServerProcess;
let dir: string;
let config: string;
const run = async (...args: string[]) => {
  const done = await coder(args, { env: server.env, cwd: dir });
  assert.equal(done.code, 0, `coder ${args.join(' ')}\n${done.stdout}${done.stderr}`);
  return done.stdout;
};

/** A program of OpenSSH in the environment of a shell that knows nothing of the server. */
async function openssh(program: string, ...args: string[]): Promise<Finished> {
  const child = spawn(program, ['-F', config, ...args], {
    cwd: dir,
    env: { PATH: process.env['PATH'], HOME: dir },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 20_000,
  });
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
  await run(
    ...['login', server.url, '--first-user-username', PERSON.username],
    ...['--first-user-email', PERSON.email, '--first-user-password', PERSON.password],
  );
  await run('templates', 'init', '--id', 'local');
  await run('templates', 'push', 'local', '-d', './local', '-y');
  await run('create', 'dev', '--template', 'local', '-y');
  await run('config-ssh', '--ssh-config-file', config, '--yes', '-o', 'ServerAliveInterval=7');
});
after(async () => {
  await server.stop();
  rmSync(dir, { recursive: true, force: true });
});

test('OpenSSH reads the configuration as meant', async () => {
  assert.equal(statSync(config).mode & 0o777, 0o600);
  for (const host of ['coder.dev', 'dev.coder']) {
    const { stdout } = await openssh('ssh', '-G', host);
    assert.match(stdout, /^serveraliveinterval 7$/m, host);
    assert.match(stdout, /^proxycommand .* ssh --stdio /m, host);
    assert.match(stdout, /^userknownhostsfile \/dev\/null$/m, host);
  }
  assert.doesNotMatch((await openssh('ssh', '-G', 'example.com')).stdout, /proxycommand/);
});

test('ssh by each form of the name: output, exit code', { timeout: 60_000 }, async () => {
  const hosts = ['coder.dev', 'coder.dev.main', 'coder.admin--dev', 'dev.coder', 'main.dev.admin.coder'];
  const all = await Promise.all(hosts.map((host) => openssh('ssh', host, 'echo here; exit 7')));
  for (const [i, done] of all.entries()) assert.deepEqual(done, { code: 7, stdout: 'here\n', stderr: '' }, hosts[i]!);
  assert.equal((await openssh('ssh', 'coder.dev', 'true')).code, 0);
  const absent = await openssh('ssh', 'coder.nope', 'true');
  assert.equal(absent.code, 255);
  assert.match(absent.stderr, /There is no workspace "nope"/);
});

test('scp carries a file both ways', { timeout: 60_000 }, async () => {
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

test('an ssh that is killed leaves nothing of ours running', { timeout: 60_000 }, async () => {
  const child = spawn('ssh', ['-F', config, 'coder.dev', 'echo ready; sleep 300'], {
    env: { PATH: process.env['PATH'], HOME: dir },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  await once(child.stdout, 'data');
  const carriers = () =>
    globSync('/proc/[0-9]*/cmdline').filter((path) => {
      try {
        const words = readFileSync(path, 'utf8').split('\0');
        return words.includes('--stdio') && words.includes(server.configDir);
      } catch {
        return false;
      }
    });
  assert.equal(carriers().length, 1);
  child.kill('SIGKILL');
  await eventually('coder ssh --stdio has ended', async () => carriers().length === 0);
});

test('--remove takes the hosts out again', async () => {
  await run('config-ssh', '--ssh-config-file', config, '--yes', '--remove');
  assert.ok(existsSync(config));
  assert.equal(readFileSync(config, 'utf8'), '');
});
