import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { eventually } from '@ropewalk/testkit/wait';
import { moveEarlierHome } from './earlier-homes.ts';
import { SPARE_UIDS } from './protocol.ts';
import { Users } from './users.ts';

const skip = process.getuid?.() === 0 ? false : 'needs root';
/** The uid of all builds up to commit c0776a0. */
const OLD = 64_101;
const block = { first: 1_880_000_000, count: SPARE_UIDS + 20 };

/** The folders of an installation of the release before builds had separate uids, with homes of workspaces. */
function installation(t: TestContext, names: string[]) {
  const base = mkdtempSync(join(tmpdir(), 'platform-earlier-'));
  t.after(() => rmSync(base, { recursive: true, force: true }));
  chmodSync(base, 0o711);
  const homes = names.map((name) => join(base, 'home/workspaces', name));
  for (const home of homes) {
    mkdirSync(join(home, '.agent'), { recursive: true });
    writeFileSync(join(home, 'notes.txt'), 'data');
    chmodSync(join(home, 'notes.txt'), 0o644);
    for (const path of [
      join(home, 'notes.txt'),
      join(home, '.agent'),
      home,
      join(home, '..'),
      join(base, 'home/workspaces'),
      join(base, 'home'),
    ])
      chownSync(path, OLD, OLD);
  }
  chmodSync(join(base, 'home'), 0o700);
  const users = new Users(block, { base, builds: base });
  const move = (user: { uid: number; home: string }, workspace: string, deleted = false) =>
    moveEarlierHome(base, { owner: 'ann', workspace, deleted }, { ...user, runAs: users.runAs(user.uid) });
  return { base, homes, users, move };
}

/** Runs a shell script with the rights of a uid. Returns its exit code and output. */
function as(uid: number, script: string): Promise<{ code: number | null; output: string }> {
  const child = spawn('/bin/sh', ['-c', script], { uid, gid: uid, cwd: '/', env: { PATH: '/usr/bin:/bin' } });
  let output = '';
  child.stdout.on('data', (data) => (output += data));
  child.stderr.on('data', (data) => (output += data));
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, output })));
}

test('a home of an earlier release gets the uid of its workspace, and its old processes end', { skip }, async (t) => {
  const { homes, users, move } = installation(t, ['ann/dev', 'ann/other', 'bob/dev']);
  const [old, sibling, foreign] = homes as [string, string, string];
  const agent = spawn(
    '/bin/sh',
    ['-c', 'echo $$ > .agent.pid; trap "echo stopped > shutdown.log; exit 0" TERM; while :; do sleep 0.05; done'],
    {
      uid: OLD,
      gid: OLD,
      cwd: old,
      env: { PATH: '/usr/bin:/bin', HOME: old },
      detached: true,
      stdio: 'ignore',
    },
  );
  const stays = spawn('/bin/sleep', ['60'], {
    uid: OLD,
    gid: OLD,
    cwd: sibling,
    env: { HOME: sibling },
    stdio: 'ignore',
  });
  t.after(() => stays.kill('SIGKILL'));
  await eventually('the agent runs', () => existsSync(join(old, '.agent.pid')));
  const user = users.user('template ann', undefined);
  const ended = new Promise((resolve) => agent.once('exit', resolve));
  await move(user, 'dev');
  await ended;
  const moved = join(user.home, 'workspaces/ann/dev');
  assert.equal(readFileSync(join(moved, 'shutdown.log'), 'utf8'), 'stopped\n', 'with its shutdown scripts');
  for (const path of ['', 'notes.txt', '.agent']) assert.equal(statSync(join(moved, path)).uid, user.uid, path);
  assert.deepEqual(await as(user.uid, `cat ${old}/notes.txt && echo more >> ${old}/notes.txt`), {
    code: 0,
    output: 'data',
  });
  assert.equal(stays.exitCode ?? stays.signalCode, null, 'processes of other workspaces go on');

  // the folders above can be passed now, and nothing else
  const other = users.user('template bob', undefined);
  for (const path of [sibling, foreign, moved])
    assert.notEqual((await as(other.uid, `cat ${path}/notes.txt`)).code, 0, path);
  assert.equal(statSync(sibling).uid, OLD);
  assert.equal((await as(OLD, `cat ${sibling}/notes.txt`)).output, 'data');
  await move(user, 'dev');
  assert.ok(lstatSync(old).isSymbolicLink(), 'a second build has nothing to do');
  stays.kill('SIGKILL');
});

test('a deletion finds the home where the state says that it is, and may remove it', { skip }, async (t) => {
  const { homes, users, move } = installation(t, ['ann/dev', 'ann/other']);
  const user = users.user('template ann', undefined);
  await move(user, 'dev', true);
  assert.deepEqual(await as(user.uid, `rm -rf '${homes[0]}'`), { code: 0, output: '' });
  assert.ok(!existsSync(homes[0]!));
  assert.notEqual((await as(user.uid, `rm -rf '${homes[1]}'`)).code, 0, 'not that of another uid');
});

test('root follows no link and gives away no file of others', { skip }, async (t) => {
  const { base, homes, users, move } = installation(t, ['ann/dev', 'ann/link']);
  const victim = join(base, 'victim');
  writeFileSync(victim, 'secret', { mode: 0o600 });
  linkSync(victim, join(homes[0]!, 'hard'));
  symlinkSync(victim, join(homes[0]!, 'soft'));
  rmSync(homes[1]!, { recursive: true });
  mkdirSync(join(base, 'elsewhere'), { mode: 0o700 });
  symlinkSync(join(base, 'elsewhere'), homes[1]!);
  const user = users.user('template ann', undefined);
  await move(user, 'dev');
  await move(user, 'link');
  await move(user, '../../victim');
  assert.deepEqual([statSync(victim).uid, statSync(join(base, 'elsewhere')).uid], [0, 0]);
  assert.notEqual((await as(user.uid, `cat ${join(user.home, 'workspaces/ann/dev/hard')}`)).code, 0);
});

test('a home that a release between the two made keeps its files and gets the earlier home', { skip }, async (t) => {
  const { homes, users, move } = installation(t, ['ann/dev']);
  const user = users.user('template ann', undefined);
  assert.equal(
    (await as(user.uid, `mkdir -p ${user.home}/workspaces/ann/dev && echo new > ${user.home}/workspaces/ann/dev/new`))
      .code,
    0,
  );
  await move(user, 'dev');
  const home = join(user.home, 'workspaces/ann/dev');
  assert.equal(readFileSync(join(home, 'new'), 'utf8'), 'new\n');
  assert.equal(readFileSync(join(home, 'home-of-earlier-release/notes.txt'), 'utf8'), 'data');
  assert.ok(lstatSync(homes[0]!).isSymbolicLink());
});

test('a build fails if the home cannot move', { skip }, async (t) => {
  const { homes, users, move } = installation(t, ['ann/dev']);
  const user = users.user('template ann', undefined);
  writeFileSync(join(user.home, 'workspaces'), '');
  await assert.rejects(move(user, 'dev'), /Could not move the workspace's home .* Move it there, with its owner/);
  assert.equal(readFileSync(join(homes[0]!, 'notes.txt'), 'utf8'), 'data');
});
