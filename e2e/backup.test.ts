// docs/backup.md, followed: a copy of the folders of a stopped server, and the commands that reach the bundled database.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import { connect } from '@ropewalk/server/db/connect';
import { directoryHash } from '@ropewalk/server/postgres/place';
import { coder, PERSON, PROGRAM, type ServerProcess, startCoderServer, tokenOf } from './harness.ts';

async function start(t: TestContext): Promise<ServerProcess> {
  const server = await startCoderServer({ bundled: true, env: { CODER_PROVISIONER_DAEMONS: '0' } });
  t.after(() => server.stop());
  assert.equal((await server.api('POST', '/users/first', PERSON)).status, 201);
  server.token = await tokenOf(server, PERSON);
  return server;
}

async function end(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  await ended;
}

const folderOf = ({ configDir }: ServerProcess) =>
  process.getuid?.() === 0 ? join('/var/lib/coder', directoryHash(configDir)) : join(configDir, 'postgres');

async function namesAt(url: string): Promise<string[]> {
  const sql = connect(url, { max: 1 });
  try {
    return (await sql<{ username: string }[]>`SELECT username FROM users WHERE NOT is_system`).map(
      (row) => row.username,
    );
  } finally {
    await sql.end();
  }
}

test('restores a server from a copy of its folders', async (t) => {
  const server = await start(t);
  await end(server.child);
  const backup = join(mkdtempSync(join(tmpdir(), 'backup-')), 'coder.tar');
  t.after(() => rmSync(join(backup, '..'), { recursive: true }));
  const folders = [folderOf(server), server.configDir];
  const tar = (...args: string[]) => {
    const { status, stderr } = spawnSync('tar', ['--numeric-owner', '-C', '/', ...args], { encoding: 'utf8' });
    assert.equal(status, 0, stderr);
  };
  tar('-cpf', backup, ...folders.map((folder) => folder.slice(1)));
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  tar('-xpf', backup);
  await server.restart();
  assert.equal((await server.api<{ username: string }>('GET', '/users/me')).body.username, PERSON.username);
});

test('reaches the bundled database next to a server, and without one', async (t) => {
  const server = await start(t);
  const url = async (...flags: string[]) => {
    const { stdout, stderr, code } = await coder(['server', 'postgres-builtin-url', ...flags], { env: server.env });
    assert.deepEqual([code, stderr], [0, '']);
    return stdout.trim();
  };
  const raw = await url('--raw-url');
  assert.equal(await url(), `psql "${raw}"`);
  assert.deepEqual(await namesAt(raw), [PERSON.username]);
  const serve = ['server', 'postgres-builtin-serve', '--raw-url'];
  const beside = await coder(serve, { env: server.env });
  assert.equal(beside.code, 1);
  assert.match(beside.stderr, /Another server uses the database/);

  await end(server.child);
  const [file, ...first] = PROGRAM;
  const serving = spawn(file!, [...first, ...serve], { env: server.env, stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => serving.kill('SIGKILL'));
  const [line] = (await once(createInterface(serving.stdout), 'line')) as [string];
  assert.equal(line, raw);
  assert.deepEqual(await namesAt(raw), [PERSON.username]);
  await end(serving);
  assert.ok(!existsSync(join(folderOf(server), 'data/postmaster.pid')), 'the database has ended');
});

test('says that a config directory has no bundled database, and creates none', async (t) => {
  const empty = mkdtempSync(join(tmpdir(), 'backup-'));
  t.after(() => rmSync(empty, { recursive: true }));
  const env = { PATH: process.env['PATH'], HOME: empty, CODER_CONFIG_DIR: empty };
  const { code, stderr } = await coder(['server', 'postgres-builtin-url'], { env });
  assert.equal(code, 1);
  assert.match(stderr, /has no bundled database\. "coder server" creates it/);
  assert.ok(!existsSync(join(empty, 'postgres')));
});
