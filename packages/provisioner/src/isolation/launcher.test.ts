import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { mkdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { create } from '@bufbuild/protobuf';
import type { LauncherInput } from '@platform/kit';
import { eventually } from '@platform/testkit/wait';
import { AcquiredJobSchema } from '@platform/wire/proto/provisionerd';
import { processRef } from '../runner/process-ref.ts';
import { readStateFile } from '../terraform/state-file.ts';
import { Launcher } from './client.ts';
import { SPARE_UIDS } from './protocol.ts';
import { copyOwned, openOwned } from './tree.ts';
import { Users } from './users.ts';

const skip = process.getuid?.() === 0 ? false : 'needs root';
const block = { first: 1_850_000_000, count: 100 };
const uid = block.first + 1 + SPARE_UIDS;
const env = { PATH: '/usr/bin:/bin' };

let dir: string;
let child: ChildProcess;
let launcher: Launcher;
before(async () => {
  if (skip) return;
  dir = mkdtempSync(join(tmpdir(), 'platform-launcher-'));
  chmodSync(dir, 0o711);
  const daemonDir = join(dir, 'daemons');
  mkdirSync(daemonDir);
  const input: LauncherInput = { block, socketPath: join(dir, 'launcher.sock'), base: dir, daemonDir };
  child = spawn(process.execPath, [fileURLToPath(new URL('./entry.ts', import.meta.url))], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin!.write(`${JSON.stringify(input)}\n`);
  await new Promise((resolve) => child.stdout!.once('data', resolve));
  launcher = new Launcher(input.socketPath);
});
after(async () => {
  if (skip) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.stdin!.end();
  await ended;
  rmSync(dir, { recursive: true, force: true });
});

const folder = (name: string) => {
  const path = join(dir, 'daemons', name);
  mkdirSync(path);
  chownSync(path, uid, uid);
  return path;
};

test('runs a program under a uid and its group alone, with its output and exit code', { skip }, async () => {
  const cwd = folder('run');
  const args = ['-c', 'id -u; id -G; pwd; echo "$X"; umask; seq 1 20000; echo no >&2; exit 7'];
  const run = await launcher.run({ uid, file: '/bin/sh', args, cwd, env: { ...env, X: 'x' } });
  const [out, err, exit] = await Promise.all([text(run.stdout), text(run.stderr), run.exited]);
  assert.match(out, new RegExp(`^${uid}\n${uid}\n${cwd}\nx\n0007\n1\n[^]*\n20000\n$`));
  assert.equal(err, 'no\n');
  assert.deepEqual(exit, { code: 7, signal: null });
});

test('acts for no uid and no folder but those of builds', { skip }, async () => {
  const cwd = folder('bounds');
  const run = (who: number, where = cwd) => launcher.run({ uid: who, file: '/bin/true', args: [], cwd: where, env });
  for (const other of [0, 1_000, block.first, block.first + block.count, -1, Number.NaN, uid + 0.5])
    await assert.rejects(run(other), /not one of this installation's builds/, String(other));
  for (const where of ['/etc', join(dir, 'daemons/../uids'), join(dir, 'daemons'), '/'])
    await assert.rejects(run(uid, where), /not a folder of builds/, where);
  await assert.rejects(launcher.clear(uid, '/etc'), /not a folder of builds/);
  await assert.rejects(launcher.clear(0, cwd), /not one of/);
  await assert.rejects(run(uid, join(cwd, 'absent')), /Could not start/);
  const me = processRef(process.pid)!;
  await assert.rejects(launcher.signal(me, 'SIGKILL'), /not one of/, 'a process of another uid');
  await launcher.signal({ pid: 2 ** 22 + 1, startTime: '1' }, 'SIGKILL');
});

test('signals the process group of a run, and not another process with its number', { skip }, async () => {
  const run = await launcher.run({ uid, file: '/bin/sh', args: ['-c', 'sleep 60 & wait'], cwd: folder('signal'), env });
  run.stdout.resume();
  run.stderr.resume();
  await launcher.signal({ ...run.process, startTime: '1' }, 'SIGKILL');
  await launcher.signal(run.process, 'SIGKILL');
  assert.deepEqual(await run.exited, { code: null, signal: 'SIGKILL' });
});

test('holds a process of the uid until it is let go', { skip }, async () => {
  const hold = await launcher.hold(uid);
  assert.equal(spawnSync('kill', ['-0', String(hold.pid)], { uid, gid: uid }).status, 0);
  hold.release();
  await eventually('it has ended', () => processRef(hold.pid) === undefined);
});

test('empties a folder of what a build closed, and follows no link out of it', { skip }, async () => {
  const cwd = folder('clear');
  const outside = join(dir, 'outside');
  await mkdir(outside);
  writeFileSync(join(outside, 'kept'), '');
  const script = `mkdir -p a/.b/c; touch a/.b/c/d .e ..f; ln -s ${outside} link; chmod 0 a/.b/c a/.b a`;
  const run = await launcher.run({ uid, file: '/bin/sh', args: ['-c', script], cwd, env });
  run.stdout.resume();
  run.stderr.resume();
  await run.exited;
  await launcher.clear(uid, cwd);
  assert.equal(statSync(cwd).nlink, 2);
  rmSync(cwd, { recursive: true });
  assert.ok(statSync(join(outside, 'kept')).isFile());
});

test('a workspace keeps its uid, and other jobs get one that nothing uses', { skip }, async () => {
  const build = (templateId: string, workspaceOwnerId: string) =>
    create(AcquiredJobSchema, {
      type: { case: 'workspaceBuild', value: { metadata: { templateId, workspaceOwnerId, workspaceOwner: 'a' } } },
    });
  const first = await launcher.userOf(build('t', 'o'), '');
  assert.deepEqual(await launcher.userOf(build('t', 'o'), ''), first);
  assert.equal(first.name, undefined, 'a template that runs no programs here needs no name');
  assert.equal(statSync(first.home).mode & 0o777, 0o700);
  for (const other of [build('t', 'p'), build('u', 'o')])
    assert.notEqual((await launcher.userOf(other, '')).uid, first.uid);

  const job = create(AcquiredJobSchema, { type: { case: 'templateImport', value: {} } });
  const [one, two] = ['one', 'two'].map((name) => join(dir, 'daemons', name)) as [string, string];
  for (const session of [one, two]) mkdirSync(session);
  const [a, b] = [await launcher.userOf(job, one), await launcher.userOf(job, two)];
  assert.notEqual(a.uid, b.uid);
  assert.deepEqual(await launcher.userOf(job, one), a);
  writeFileSync(join(a.home, 'left'), '');
  const sleeper = spawn('sleep', ['60'], { uid: a.uid, gid: a.uid, stdio: 'ignore' });
  await eventually('it runs', () => processRef(sleeper.pid!));
  rmSync(one, { recursive: true });
  mkdirSync(one);
  const three = join(dir, 'daemons', 'three');
  rmSync(one, { recursive: true });
  mkdirSync(three);
  assert.notEqual((await launcher.userOf(job, three)).uid, a.uid, 'something of the earlier job lives');
  const gone = new Promise((resolve) => sleeper.once('exit', resolve));
  sleeper.kill('SIGKILL');
  await gone;
  const four = join(dir, 'daemons', 'four');
  mkdirSync(four);
  const again = await launcher.userOf(job, four);
  assert.equal(again.uid, a.uid);
  await assert.rejects(readFile(join(again.home, 'left')), /ENOENT/);
});

test('says so when no uid is left', { skip }, () => {
  const base = mkdtempSync(join(dir, 'full-'));
  const users = new Users({ first: block.first, count: SPARE_UIDS + 3 }, base, () => {});
  users.user('a', undefined);
  users.user('b', undefined);
  assert.throws(() => users.user('c', undefined), /in use/);
});

test("the daemon reads nothing through a build's links, pipes and foreign files", { skip }, async () => {
  const cwd = folder('read');
  const state = JSON.stringify({ version: 4, terraform_version: '1.5.0', serial: 1, lineage: 'x', resources: [] });
  const secret = join(dir, 'secret.tfstate');
  writeFileSync(secret, state);
  const path = join(cwd, 'terraform.tfstate');
  symlinkSync(secret, path);
  assert.equal(await readStateFile(path, uid), 'incomplete');
  rmSync(path);
  linkSync(secret, path);
  assert.equal(await readStateFile(path, uid), 'incomplete', 'a hard link to a file of the daemon');
  rmSync(path);
  const fifo = spawn('mkfifo', [path]);
  await new Promise((resolve) => fifo.once('exit', resolve));
  assert.equal(await readStateFile(path, uid), 'incomplete');
  rmSync(path);
  writeFileSync(path, state);
  chownSync(path, uid + 1, uid + 1);
  assert.equal(await readStateFile(path, uid), 'incomplete', 'a file of another build');
  chownSync(path, uid, uid);
  const read = await readStateFile(path, uid);
  assert.ok(typeof read === 'object' && read.serial === 1n);
  await assert.rejects(openOwned(secret, uid), /not a regular file of the build/);
  symlinkSync(dir, join(cwd, 'link'));
  const copy = join(dir, 'copy');
  await copyOwned(cwd, copy, { uid });
  assert.ok(statSync(join(copy, 'terraform.tfstate')).isFile());
  writeFileSync(join(cwd, 'planted'), '');
  await assert.rejects(copyOwned(cwd, join(dir, 'copy-2'), { uid }), /not a regular file of the build/);
});
