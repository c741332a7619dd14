import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { mkdir, readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { create } from '@bufbuild/protobuf';
import { idsOfProcess, type LauncherInput, silentLogger } from '@ropewalk/kit';
import { processRef } from '@ropewalk/kit/process-ref';
import { eventually } from '@ropewalk/testkit/wait';
import { PrebuiltWorkspaceBuildStage } from '@ropewalk/wire/proto/provisioner';
import { AcquiredJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { findTerraform } from '../terraform/binary.ts';
import { inheritedEnv } from '../terraform/env.ts';
import { archiveModules } from '../terraform/modules.ts';
import { VersionCache } from '../terraform/prepare.ts';
import { readStateFile } from '../terraform/state-file.ts';
import { Launcher } from './client.ts';
import { SPARE_UIDS } from './protocol.ts';
import { copyOwned, openOwned, shareTree } from './tree.ts';
import { Users } from './users.ts';

const skip = process.getuid?.() === 0 ? false : 'needs root';
const noSetpriv = skip || (spawnSync('setpriv', ['--version']).status === 0 ? false : 'needs setpriv');
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
    // the last one stands for a descriptor that a shell left open
    stdio: ['pipe', 'pipe', 'inherit', 'pipe'],
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

test('a setuid file gives the program of a build no other uid', { skip: noSetpriv }, async () => {
  const cwd = folder('setuid');
  const planted = join(dir, 'daemons/setuid-id');
  copyFileSync('/usr/bin/id', planted);
  chownSync(planted, uid + 1, uid + 1);
  chmodSync(planted, 0o6755);
  const args = ['-c', `${planted} -u; grep NoNewPrivs /proc/self/status`];
  const run = await launcher.run({ uid, file: '/bin/sh', args, cwd, env: { ...env, 'with-a-hyphen': 'x' } });
  run.stderr.resume();
  assert.equal(await text(run.stdout), `${uid}\nNoNewPrivs:\t1\n`);
  const all = await launcher.run({ uid, file: '/usr/bin/env', args: [], cwd, env: { 'with-a-hyphen': 'x' } });
  all.stderr.resume();
  assert.equal(await text(all.stdout), 'with-a-hyphen=x\n', 'the environment has exactly the given variables');
});

test('a launcher without privileges from setuid files starts programs without a command before them', {
  skip: noSetpriv,
}, async () => {
  const base = mkdtempSync(join(dir, 'bounded-'));
  const daemonDir = join(base, 'daemons');
  mkdirSync(daemonDir);
  const input: LauncherInput = { block, socketPath: join(base, 'launcher.sock'), base, daemonDir };
  const entry = fileURLToPath(new URL('./entry.ts', import.meta.url));
  const own = spawn('setpriv', ['--no-new-privs', process.execPath, entry], { stdio: ['pipe', 'pipe', 'inherit'] });
  const gone = new Promise((resolve) => own.once('exit', resolve));
  try {
    own.stdin.write(`${JSON.stringify(input)}\n`);
    await new Promise((resolve) => own.stdout.once('data', resolve));
    const cwd = join(daemonDir, 'x');
    mkdirSync(cwd);
    chownSync(cwd, uid, uid);
    const bounded = new Launcher(input.socketPath);
    const args = ['-c', 'id -u; grep NoNewPrivs /proc/self/status'];
    const run = await bounded.run({ uid, file: '/bin/sh', args, cwd, env });
    run.stderr.resume();
    assert.equal(await text(run.stdout), `${uid}\nNoNewPrivs:\t1\n`);
  } finally {
    own.stdin.end();
    await gone;
  }
});

test('a program does not inherit the open files of the launcher', { skip }, async () => {
  const run = await launcher.run({ uid, file: '/bin/ls', args: ['/proc/self/fd'], cwd: folder('inherits'), env });
  run.stderr.resume();
  // 3 is the listing itself
  assert.equal(await text(run.stdout), '0\n1\n2\n3\n');
});

test('does not signal a process that also has an id of another user', { skip }, async () => {
  // a setuid program has the real uid of the process that started it
  const planted = join(dir, 'daemons/setuid-sleep');
  copyFileSync('/bin/sleep', planted);
  chmodSync(planted, 0o4755);
  const child = spawn(planted, ['60'], { uid, gid: uid, stdio: 'ignore', detached: true });
  await eventually('it runs as root', () => idsOfProcess(child.pid!)?.uids[1] === 0);
  await assert.rejects(launcher.signal(processRef(child.pid!)!, 'SIGKILL'), /not one of/);
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await ended;
});

test('rejects uids and folders that do not belong to builds', { skip }, async () => {
  const cwd = folder('bounds');
  const run = (who: number, where = cwd) => launcher.run({ uid: who, file: '/bin/true', args: [], cwd: where, env });
  for (const other of [0, 1_000, block.first, block.first + block.count, -1, Number.NaN, uid + 0.5])
    await assert.rejects(run(other), /not one of this installation's builds/, String(other));
  for (const pid of ['self', `${uid}`, 0.5] as unknown as number[])
    await assert.rejects(launcher.signal({ pid, startTime: '1' }, 'SIGKILL'), /is not a whole number/);
  for (const where of ['/etc', join(dir, 'daemons/../uids'), join(dir, 'daemons'), '/'])
    await assert.rejects(run(uid, where), /not a folder of builds/, where);
  await assert.rejects(launcher.clear(uid, ['/etc']), /not a folder of builds/);
  await assert.rejects(launcher.clear(0, [cwd]), /not one of/);
  await assert.rejects(run(uid, join(cwd, 'absent')), /Could not start/);
  const outside = join(dir, 'outside-bounds');
  mkdirSync(outside);
  symlinkSync(outside, join(cwd, 'link'));
  mkdirSync(join(outside, 'deep'));
  await assert.rejects(run(uid, join(cwd, 'link')), /Could not start|not a folder/, 'a link out of the folder');
  await assert.rejects(run(uid, join(cwd, 'link/deep')), /not a folder of builds/, 'a path through a link');
  const me = processRef(process.pid)!;
  await assert.rejects(launcher.signal(me, 'SIGKILL'), /not one of/, 'a process of another uid');
  await launcher.signal({ pid: 2 ** 22 + 1, startTime: '1' }, 'SIGKILL');
});

test('signals the process group of a run, but not a later process with the same pid', { skip }, async () => {
  const run = await launcher.run({ uid, file: '/bin/sh', args: ['-c', 'sleep 60 & wait'], cwd: folder('signal'), env });
  run.stdout.resume();
  run.stderr.resume();
  await launcher.signal({ ...run.process, startTime: '1' }, 'SIGKILL');
  await launcher.signal(run.process, 'SIGKILL');
  assert.deepEqual(await run.exited, { code: null, signal: 'SIGKILL' });
});

test('holds a process of the uid until the caller releases it', { skip }, async () => {
  const hold = await launcher.hold(uid);
  assert.equal(spawnSync('kill', ['-0', String(hold.pid)], { uid, gid: uid }).status, 0);
  hold.release();
  await eventually('it has ended', () => processRef(hold.pid) === undefined);
});

test('empties folders that a build closed, and does not follow links out of them', { skip }, async () => {
  const cwd = folder('clear');
  const outside = join(dir, 'outside');
  await mkdir(outside);
  writeFileSync(join(outside, 'kept'), '');
  const script = `mkdir -p a/.b/c; touch a/.b/c/d .e ..f; ln -s ${outside} link; chmod 0 a/.b/c a/.b a`;
  const run = await launcher.run({ uid, file: '/bin/sh', args: ['-c', script], cwd, env });
  run.stdout.resume();
  run.stderr.resume();
  await run.exited;
  // the launcher's caller owns it, as a session's folder
  chownSync(dirname(cwd), 0, 0);
  const other = folder('clear-open');
  writeFileSync(join(other, '.f'), '');
  chownSync(join(other, '.f'), uid, uid);
  await launcher.clear(uid, [cwd, other, join(dir, 'daemons', 'absent')]);
  assert.deepEqual([readdirSync(cwd), readdirSync(other)], [[], []]);
  rmSync(cwd, { recursive: true });
  assert.ok(statSync(join(outside, 'kept')).isFile());
});

test('a workspace keeps its uid, and each other job gets an unused one', { skip }, async () => {
  const build = (templateId: string, workspaceOwnerId: string) =>
    create(AcquiredJobSchema, {
      type: { case: 'workspaceBuild', value: { metadata: { templateId, workspaceOwnerId, workspaceOwner: 'a' } } },
    });
  const first = await launcher.userOf(build('t', 'o'), '');
  assert.deepEqual(await launcher.userOf(build('t', 'o'), ''), first);
  assert.equal(first.name, undefined, 'a template that runs no programs on this machine needs no user name');
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
  await launcher.release(one);
  await eventually('it was ended', () => sleeper.signalCode === 'SIGKILL');
  const three = join(dir, 'daemons', 'three');
  mkdirSync(three);
  assert.notEqual((await launcher.userOf(job, three)).uid, a.uid, 'its folder still exists');
  rmSync(one, { recursive: true });
  const four = join(dir, 'daemons', 'four');
  mkdirSync(four);
  const again = await launcher.userOf(job, four);
  assert.equal(again.uid, a.uid);
  await assert.rejects(readFile(join(again.home, 'left')), /ENOENT/);
});

test('a workspace that was built for a pool keeps a separate uid, which its deletion frees', { skip }, async () => {
  const build = (workspaceId: string, stage: PrebuiltWorkspaceBuildStage, workspaceOwnerId: string) => {
    const metadata = { templateId: 'pool', workspaceId, workspaceOwnerId, prebuiltWorkspaceBuildStage: stage };
    return create(AcquiredJobSchema, { type: { case: 'workspaceBuild', value: { metadata } } });
  };
  const { CREATE, CLAIM, NONE } = PrebuiltWorkspaceBuildStage;
  const [first, second] = [
    await launcher.userOf(build('w1', CREATE, 'pool'), ''),
    await launcher.userOf(build('w2', CREATE, 'pool'), ''),
  ];
  assert.notEqual(first.uid, second.uid);
  assert.deepEqual(await launcher.userOf(build('w1', CLAIM, 'ann'), ''), first);
  assert.deepEqual(await launcher.userOf(build('w1', NONE, 'ann'), ''), first);
  const usual = await launcher.userOf(build('w3', NONE, 'ann'), '');
  assert.notEqual(usual.uid, first.uid);
  writeFileSync(join(first.home, 'left'), '');
  await launcher.vacate({ templateId: 'pool', workspaceId: 'w1' });
  // nothing of a usual workspace is freed
  await launcher.vacate({ templateId: 'pool', workspaceId: 'w3' });
  assert.deepEqual(await launcher.userOf(build('w3', NONE, 'ann'), ''), usual);
  const next = await launcher.userOf(build('w4', CREATE, 'pool'), '');
  assert.equal(next.uid, first.uid);
  await assert.rejects(readFile(join(next.home, 'left')), /ENOENT/);
});

test('two launchers of an installation give a key the same uid, immediately and later', { skip }, async () => {
  const base = mkdtempSync(join(dir, 'shared-'));
  const all = { first: block.first + 3_000, count: 1_000 };
  const [one, two] = [new Users(all, { base, builds: base }), new Users(all, { base, builds: base })];
  for (const round of ['immediately', 'later']) {
    // of a folder that did not change for a while, the keys are in memory
    if (round === 'later') utimesSync(join(base, 'uids'), new Date(0), new Date(Date.now() - 60_000));
    for (let number = 0; number < 20; number++) {
      const key = `${round} ${number}`;
      const [first, second] = number % 2 ? [one, two] : [two, one];
      assert.deepEqual(second.user(key, undefined), first.user(key, undefined));
    }
  }
  await two.vacate('later 3');
  const { uid: taken } = two.user('another', undefined);
  assert.notEqual(one.user('later 3', undefined).uid, taken);
  assert.equal(one.user('another', undefined).uid, taken);
});

test('reuses the uids of 64 jobs that left processes and files', { skip }, async () => {
  const base = mkdtempSync(join(dir, 'spare-'));
  chmodSync(base, 0o711);
  const spares = { first: block.first + 1_000, count: SPARE_UIDS + 3 };
  const users = new Users(spares, { base, builds: base });
  const sleepers: ChildProcess[] = [];
  const planted: string[] = [];
  for (let number = 0; number < SPARE_UIDS + 3; number++) {
    const session = join(base, `session-${number}`);
    mkdirSync(session);
    const { uid: own, home } = await users.spare(session);
    planted.push(join('/tmp', `platform-left-${crypto.randomUUID()}`));
    const script = `mkdir -p "$1/a" ${home}/a; touch "$1/a/b" ${home}/a/b; chmod 0 "$1/a" ${home}/a; exec sleep 600`;
    const sleeper = spawn('sh', ['-c', script, 'sh', planted[number]!], { uid: own, gid: own, stdio: 'ignore' });
    sleepers.push(sleeper);
    await eventually('the process sleeps', () =>
      readFileSync(`/proc/${sleeper.pid}/cmdline`, 'latin1').startsWith('sleep'),
    );
    rmSync(session, { recursive: true });
    if (number % 2) await users.release(session);
  }
  const session = join(base, 'last');
  mkdirSync(session);
  const { uid: first } = await users.spare(session);
  assert.equal(first, spares.first + 1);
  assert.ok(!planted.slice(0, -1).some((path) => existsSync(path)), 'files in folders that everybody can write');
  for (const { signalCode, pid } of sleepers.slice(0, -1))
    await eventually('it was ended', () => signalCode === 'SIGKILL' || processRef(pid!) === undefined);
  sleepers.at(-1)!.kill('SIGKILL');
  rmSync(planted.at(-1)!, { recursive: true, force: true });
});

test('ends processes that have a spare uid as effective uid, and does not reuse the uid while its setuid file exists', {
  skip,
}, async () => {
  const base = mkdtempSync(join(dir, 'left-'));
  const spares = { first: block.first + 2_000, count: SPARE_UIDS + 3 };
  const said: string[] = [];
  const users = new Users(spares, { base, builds: base, setuid: true, say: (line) => said.push(line) });
  const own = spares.first + 1;
  // the real uid is a person's, the effective uid a build's
  const planted = join(base, 'sleep');
  copyFileSync('/bin/sleep', planted);
  chownSync(planted, own, own);
  chmodSync(planted, 0o4755);
  chmodSync(base, 0o711);
  const child = spawn(planted, ['60'], { uid: 4_321, gid: 4_321, stdio: 'ignore' });
  await eventually('it runs', () => idsOfProcess(child.pid!)?.uids[1] === own);
  const session = (name: string) => {
    mkdirSync(join(base, name));
    return join(base, name);
  };
  assert.notEqual((await users.spare(session('a'))).uid, own);
  await eventually('it was ended', () => child.signalCode === 'SIGKILL');
  assert.match(said.join(), /setuid file .* still exists/);
  rmSync(planted);
  assert.equal((await users.spare(session('b'))).uid, own);
});

test('answers an unknown request with an error and closes the connection', { skip, timeout: 60_000 }, async () => {
  const asked = connect(launcher.socketPath);
  asked.write('{"op":"other"}\n');
  assert.match(await text(asked), /Unknown operation: \\"other\\"/);
});

test('fails with an explanation when no uid is left', { skip }, () => {
  const base = mkdtempSync(join(dir, 'full-'));
  const users = new Users({ first: block.first, count: SPARE_UIDS + 3 }, { base, builds: base });
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
  assert.equal(readStateFile(path, uid), 'incomplete');
  rmSync(path);
  linkSync(secret, path);
  assert.equal(readStateFile(path, uid), 'incomplete', 'a hard link to a file of the daemon');
  rmSync(path);
  const fifo = spawn('mkfifo', [path]);
  await new Promise((resolve) => fifo.once('exit', resolve));
  assert.equal(readStateFile(path, uid), 'incomplete');
  rmSync(path);
  writeFileSync(path, state);
  chownSync(path, uid + 1, uid + 1);
  assert.equal(readStateFile(path, uid), 'incomplete', 'a file of another build');
  chownSync(path, uid, uid);
  const read = readStateFile(path, uid);
  assert.ok(typeof read === 'object' && read.serial === 1n);
  assert.throws(() => openOwned(secret, uid), /not a regular file of the build/);
  symlinkSync(dir, join(cwd, 'link'));
  const copy = join(dir, 'copy');
  await copyOwned(cwd, copy, { uid });
  assert.ok(statSync(join(copy, 'terraform.tfstate')).isFile());
  writeFileSync(join(cwd, 'planted'), '');
  await assert.rejects(copyOwned(cwd, join(dir, 'copy-2'), { uid }), /not a regular file of the build/);
});

test("a build's init serves only builds of its own uid, and an import's init serves all", {
  skip,
}, async () => {
  const cacheDir = join(dir, 'daemons/cache');
  const versions = new VersionCache({ cacheDir, log: silentLogger, shared: true });
  const inherited = { ...inheritedEnv(process.env), TF_CLI_CONFIG_FILE: '/dev/null' };
  const terraform = await findTerraform({ env: inherited, log: silentLogger });
  const prepare = async (name: string, who: number, alone: boolean) => {
    const session = join(dir, 'daemons', name);
    mkdirSync(session);
    writeFileSync(join(session, 'main.tf'), 'locals { a = 1 }');
    const home = join(dir, 'daemons', `${name}-home`);
    mkdirSync(home);
    await shareTree(session, who);
    chownSync(home, who, who);
    const { fresh } = await versions.prepare({
      dir: session,
      archiveHash: 'abc',
      terraform,
      env: { ...inherited, HOME: home },
      attachProvider: true,
      as: { user: { uid: who, home }, launcher, alone },
      signal: new AbortController().signal,
      onLog: () => {},
      graph: async () => 'digraph {}',
    });
    return fresh;
  };
  assert.equal(await prepare('p1', uid, false), true);
  assert.equal(await prepare('p2', uid, false), false, 'the same uid');
  assert.equal(await prepare('p3', uid + 1, false), true, 'another owner');
  assert.equal(await prepare('p4', block.first + 1, true), true, 'an import');
  assert.equal(await prepare('p5', uid + 2, false), false, 'any owner after an import');
});

test("module archives contain only files that the build's uid can read", { skip }, async () => {
  const template = join(dir, 'modules');
  const [open, closed] = [join(dir, 'open-module'), join(dir, 'closed')];
  mkdirSync(join(template, '.terraform/modules'), { recursive: true });
  for (const path of [open, join(closed, 'inner')]) {
    mkdirSync(path, { recursive: true });
    writeFileSync(join(path, 'main.tf'), '# canary');
    symlinkSync(path, join(template, '.terraform/modules', path === open ? 'open' : 'closed'));
  }
  chmodSync(closed, 0o700);
  const manifest = (name: string) =>
    writeFileSync(
      join(template, '.terraform/modules/modules.json'),
      JSON.stringify({ Modules: [{ Key: name, Source: `/${name}`, Dir: `.terraform/modules/${name}` }] }),
    );
  manifest('open');
  assert.match(Buffer.from((await archiveModules(template, { uid }))!.archive).toString('latin1'), /canary/);
  manifest('closed');
  await assert.rejects(archiveModules(template, { uid }), /leads to a file that the build cannot read/);
  chmodSync(closed, 0o755);
  chmodSync(join(closed, 'inner/main.tf'), 0o600);
  await assert.rejects(archiveModules(template, { uid }), /leads to a file that the build cannot read/);
  chownSync(join(closed, 'inner/main.tf'), uid, uid);
  assert.ok(await archiveModules(template, { uid }));
});
