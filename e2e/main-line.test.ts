import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import {
  coder,
  ensureExecutable,
  eventually,
  FIRST_USER,
  PERSON,
  PROGRAM,
  type ServerProcess,
  startCoderServer,
} from './harness.ts';

// Runs the README's tour. The steps depend on each other and run in this order.
let server: ServerProcess;
let dir: string;
const run = async (...args: string[]) => {
  const done = await coder(args, { env: server.env, cwd: dir });
  assert.equal(done.code, 0, `coder ${args.join(' ')}\n${done.stdout}${done.stderr}`);
  return done.stdout + done.stderr;
};

before(async () => {
  await ensureExecutable();
  dir = mkdtempSync(join(tmpdir(), 'platform-tour-'));
  server = await startCoderServer();
});
after(async () => {
  await server.stop();
  rmSync(dir, { recursive: true, force: true });
});

test('runs the tour from the first user to a deleted workspace', { timeout: 240_000 }, async (t) => {
  await t.test('login creates the first user', async () => {
    const out = await run('login', server.url, ...FIRST_USER);
    assert.match(out, /admin/);
    assert.doesNotMatch(out, new RegExp(PERSON.password), 'a password is never shown');
    assert.equal(readFileSync(join(server.configDir, 'url'), 'utf8').trim(), server.url);
    server.token = readFileSync(join(server.configDir, 'session'), 'utf8').trim();
  });
  await t.test('templates init, push', async () => {
    await run('templates', 'init', '--id', 'local');
    assert.ok(existsSync(join(dir, 'local/main.tf')));
    const out = await run('templates', 'push', 'local', '-d', './local', '-y');
    assert.match(out, /Detecting persistent resources \[\d/, 'stages with durations');
    assert.match(out, /terraform_data\.process[\s\S]*main \(/, 'a preview of the resources');
  });
  await t.test('create, list, show', async () => {
    const out = await run('create', 'dev', '--template', 'local', '-y');
    assert.match(out, /Starting workspace \[\d/);
    assert.match(await run('list'), /admin\/dev\s+local\s+Started/);
    const shown = JSON.parse(await run('list', '-o', 'json')) as { name: string }[];
    assert.deepEqual(
      shown.map((workspace) => workspace.name),
      ['dev'],
    );
    assert.match(await run('show', 'dev'), /main \(.*connected/);
  });
  await t.test('ssh: output, exit status, standard input and a resizable terminal', async () => {
    assert.match(await run('ssh', 'dev', '--', 'uname', '-a'), /Linux/);
    assert.equal((await coder(['ssh', 'dev', '--', 'exit', '7'], { env: server.env })).code, 7);
    const echoed = await coder(['ssh', 'dev', '--', 'cat'], { env: server.env, stdin: 'to and fro\n' });
    assert.equal(echoed.stdout, 'to and fro\n');
    await resizedTerminal(server.env);
  });
  await t.test('stop, start, restart, update', async () => {
    await run('stop', 'dev', '-y');
    assert.match(await run('list'), /Stopped/);
    await run('start', 'dev', '-y');
    assert.match(await run('ssh', 'dev', '--', 'echo', 'again'), /again/);
    await run('restart', 'dev', '-y');
    await run('templates', 'push', 'local', '-d', './local', '-y', '--name', 'second');
    assert.match(await run('list'), /true/, 'outdated');
    await run('update', 'dev');
    assert.match(await run('ssh', 'dev', '--', 'echo', 'updated'), /updated/);
  });
  await t.test('delete leaves nothing', async () => {
    const home = (await run('ssh', 'dev', '--', 'pwd')).trim().split('\n').at(-1)!;
    await run('delete', 'dev', '-y');
    assert.match(await run('list'), /No workspaces found/);
    assert.ok(!existsSync(home), `${home} is gone`);
  });
});

/** Runs `coder ssh dev` in a real terminal of 80×24, resizes it to 100×40 and checks both sizes with `stty`. */
async function resizedTerminal(env: NodeJS.ProcessEnv): Promise<void> {
  const { spawn: spawnPty } = await import('@lydell/node-pty');
  const [file, ...first] = PROGRAM;
  const terminal = spawnPty(file!, [...first, 'ssh', 'dev'], {
    cols: 80,
    rows: 24,
    env: { ...env, TERM: 'xterm' } as Record<string, string>,
  });
  let seen = '';
  terminal.onData((text) => {
    seen += text;
  });
  const exited = new Promise<number>((resolve) => terminal.onExit(({ exitCode }) => resolve(exitCode)));
  try {
    terminal.write('stty size\n');
    await eventually('the size is 24 80', async () => seen.includes('24 80'));
    terminal.resize(100, 40);
    await eventually('the size is 40 100', async () => {
      terminal.write('stty size\n');
      await new Promise((done) => setTimeout(done, 100));
      return seen.includes('40 100');
    });
    terminal.write('exit 3\n');
    assert.equal(await exited, 3);
  } finally {
    terminal.kill();
  }
}
