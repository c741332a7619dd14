import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { create } from '@bufbuild/protobuf';
import { type LauncherInput, processesWith } from '@ropewalk/kit';
import { eventually } from '@ropewalk/testkit/wait';
import { AcquiredJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { Launcher } from './client.ts';
import { SPARE_UIDS } from './protocol.ts';
import { Rooms } from './rooms.ts';
import { Users } from './users.ts';

const possible = process.getuid?.() === 0 && spawnSync('unshare', ['--mount', '--ipc', 'true']).status === 0;
const skip = possible ? false : 'needs root and mount namespaces';
const block = { first: 1_860_000_000, count: 100 };
const PLACES = ['/tmp', '/var/tmp', '/dev/shm'];
const IMPORT = create(AcquiredJobSchema, { type: { case: 'templateImport', value: {} } });

let dir: string;
let child: ChildProcess;
let launcher: Launcher;
before(async () => {
  if (skip) return;
  // rooms replace /tmp
  dir = mkdtempSync(join(tmpdir() === '/tmp' ? '/var/lib' : tmpdir(), 'platform-rooms-'));
  chmodSync(dir, 0o711);
  const daemonDir = join(dir, 'daemons');
  mkdirSync(daemonDir);
  const input: LauncherInput = { block, socketPath: join(dir, 'launcher.sock'), base: dir, daemonDir };
  child = spawn(process.execPath, [fileURLToPath(new URL('./entry.ts', import.meta.url))], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin!.write(`${JSON.stringify(input)}\n`);
  assert.equal(String(await new Promise((resolve) => child.stdout!.once('data', resolve))), 'ready\n');
  launcher = new Launcher(input.socketPath);
});
after(async () => {
  if (skip) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.stdin!.end();
  await ended;
  rmSync(dir, { recursive: true, force: true });
});

/** A job with a spare uid. `run` runs a shell script as the job. */
async function job(name: string) {
  const session = join(dir, 'daemons', name);
  mkdirSync(session);
  const user = await launcher.userOf(IMPORT, session);
  const cwd = join(session, 'template');
  mkdirSync(cwd);
  chownSync(cwd, user.uid, user.uid);
  return {
    ...user,
    cwd,
    start: (script: string, env: Record<string, string> = {}) =>
      launcher.run({
        uid: user.uid,
        file: '/bin/sh',
        args: ['-c', script],
        cwd,
        env: { PATH: '/usr/bin:/bin', HOME: user.home, ...env },
      }),
    async run(script: string, env: Record<string, string> = {}): Promise<string> {
      const { stdout, stderr } = await this.start(script, env);
      const [out, err] = await Promise.all([text(stdout), text(stderr)]);
      return out + err;
    },
    async end() {
      rmSync(session, { recursive: true, force: true });
      await launcher.release(session);
    },
  };
}

const list = `for dir in ${PLACES.join(' ')}; do ls -A $dir; done; ipcs -m | grep -c '^0x'`;

test('an import finds nothing of earlier imports with its uid in the folders that everybody can write', {
  skip,
}, async () => {
  const planted = `planted-${crypto.randomUUID()}`;
  const first = await job('first');
  const plant = PLACES.map(
    (place) => `mkdir -p ${place}/${planted}/a; echo x > ${place}/${planted}/a/b; chmod 0 ${place}/${planted}`,
  );
  assert.equal(
    await first.run(`${plant.join('; ')}; mkdir -p "$HOME/.x" "$TMPDIR/y"; ipcmk -M 64 > /dev/null`, {
      TMPDIR: first.tmp!,
    }),
    '',
  );
  assert.match(await first.run(list), new RegExp(planted), 'its next command finds them');
  for (const place of PLACES)
    assert.ok(!existsSync(join(place, planted)), 'they are not in the folders of the machine');
  await first.end();
  const second = await job('second');
  assert.equal(second.uid, first.uid);
  assert.equal(await second.run(`${list}; ls -A "$HOME"; ls -A "$TMPDIR"`, { TMPDIR: second.tmp! }), '0\ntmp\n');
  await second.end();
});

test('imports that run together have separate folders', { skip }, async () => {
  const [one, two] = [await job('one'), await job('two')];
  assert.equal(await one.run('echo secret > /tmp/x'), '');
  assert.equal(await two.run(list), '0\n');
  await Promise.all([one.end(), two.end()]);
});

test('a program gets its arguments, folder, ids and environment in its room, and no open file', { skip }, async () => {
  const one = await job('program');
  const env = { PATH: '/usr/bin:/bin', A: "it's\n$(id) `id` \\", 'TF_VAR_a-b': 'x y', LD_PRELOAD: '', UID: '7' };
  const run = await launcher.run({ uid: one.uid, file: '/usr/bin/env', args: ['-0'], cwd: one.cwd, env });
  run.stderr.resume();
  const got = Object.fromEntries(
    (await text(run.stdout))
      .split('\0')
      .filter(Boolean)
      .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  );
  assert.deepEqual(Object.fromEntries(Object.keys(env).map((name) => [name, got[name]])), env);
  const shown = await one.run('id -u; id -G; pwd; umask; grep NoNewPrivs /proc/self/status; ls /proc/self/fd');
  assert.match(shown, new RegExp(`^${one.uid}\n${one.uid}\n${one.cwd}\n0007\nNoNewPrivs:\t1\n0\n1\n2\n3\n$`));
  await one.end();
});

test('the environment of a build does not affect programs of root', { skip }, async () => {
  const one = await job('loader');
  const traces = join(dir, 'traces');
  mkdirSync(traces);
  chmodSync(traces, 0o1777);
  // the loader of each program that gets these variables writes a file
  await one.run('true', { LD_DEBUG: 'files', LD_DEBUG_OUTPUT: join(traces, 'trace') });
  const owners = new Set(readdirSync(traces).map((name) => statSync(join(traces, name)).uid));
  assert.deepEqual([...owners], [one.uid]);
  await one.end();
});

test('no process of the uid leads a build out of its room', { skip }, async () => {
  const one = await job('escape');
  const marker = `marker-${crypto.randomUUID()}`;
  writeFileSync(join('/tmp', marker), '');
  try {
    // looks at every process, also those that clear its folders, hold its provider open and kill it
    const watch = `while :; do for p in /proc/[0-9]*; do [ -e $p/root/tmp/${marker} ] && echo OUT $p; [ -e $p/cwd/tmp/${marker} ] && echo CWD $p; done; done 2>/dev/null`;
    const run = await one.start(`trap '' TERM; echo begun; ${watch}`);
    let seen = '';
    run.stdout.on('data', (data: Buffer) => {
      seen += data.toString();
    });
    run.stderr.resume();
    await eventually('it watches', () => seen.includes('begun'));
    for (let round = 0; round < 5; round++) {
      const hold = await launcher.hold(one.uid);
      await launcher.clear(one.uid, [one.cwd]);
      writeFileSync(join(one.cwd, 'x'), '');
      hold.release();
    }
    await one.end();
    await run.exited;
    assert.equal(seen.replace('begun\n', ''), '');
  } finally {
    rmSync(join('/tmp', marker));
  }
});

test('a process that keeps a folder of an ended import cannot reach the next one', { skip }, async () => {
  const one = await job('kept');
  // another uid, such as a workspace of the same person, that got the folder over a socket
  assert.equal(await one.run('chmod 777 /tmp; touch /tmp/x; sleep 60 >/dev/null 2>&1 & echo $! > "$HOME/pid"'), '');
  const [inside] = processesWith((id) => id === one.uid).filter((pid) => existsSync(`/proc/${pid}/root/tmp/x`));
  const other = spawn(
    '/bin/sh',
    [
      '-c',
      'cd "$1" && exec 2>/dev/null && echo in && read -r line && (: > planted; ls -A)',
      'sh',
      `/proc/${inside}/root/tmp`,
    ],
    { cwd: '/', stdio: ['pipe', 'pipe', 'ignore'] },
  );
  const output = text(other.stdout);
  await new Promise((resolve) => other.stdout.once('readable', resolve));
  await one.end();
  const two = await job('next');
  assert.equal(two.uid, one.uid);
  other.stdin.write('\n');
  assert.equal(await output, 'in\n', 'the folder is gone');
  assert.equal(await two.run(list), '0\n');
  await two.end();
});

test('an import that leaves more files than a command line can name leaves none', {
  skip,
  timeout: 120_000,
}, async () => {
  const one = await job('many');
  assert.equal(
    await one.run(
      'cd /tmp && seq 1 30000 | sed "s/^/a-name-that-is-as-long-as-names-of-files-sometimes-are-/" | xargs touch',
    ),
    '',
  );
  await one.end();
  assert.deepEqual(readdirSync(join(dir, 'rooms')), []);
});

test('without namespaces, the files of a uid are found among those of the machine', { skip }, async () => {
  const base = mkdtempSync(join(dir, 'plain-'));
  chmodSync(base, 0o711);
  const spares = { first: block.first + 1_000, count: SPARE_UIDS + 3 };
  const users = new Users(spares, { base, builds: base });
  const session = join(base, 'session');
  mkdirSync(session);
  const { uid } = await users.spare(session);
  assert.equal(users.room(uid), undefined);
  const left = join('/tmp', `left-${crypto.randomUUID()}`);
  writeFileSync(left, '');
  chownSync(left, uid, uid);
  rmSync(session, { recursive: true });
  await users.release(session);
  assert.ok(!existsSync(left));
});

test('a folder that holds the builds stays that of the machine', { skip }, () => {
  const builds = mkdtempSync('/tmp/platform-builds-');
  try {
    assert.deepEqual(new Rooms(dir, builds).shared, ['/tmp']);
  } finally {
    rmSync(builds, { recursive: true });
  }
});
