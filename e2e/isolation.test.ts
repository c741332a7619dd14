import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import {
  buildEnds,
  buildLog,
  commandTemplate,
  createWorkspace,
  eventually,
  firstUser,
  makeTemplate,
  type ServerProcess,
  startCoderServer,
} from './harness.ts';

// builds are isolated by their own uids, which only root can assign
const skip = process.getuid?.() === 0 ? false : 'needs root';

let server: ServerProcess;
let scratch: string;
before(async () => {
  if (skip) return;
  scratch = mkdtempSync(join(tmpdir(), 'platform-isolation-'));
  spawnSync('chmod', ['1777', scratch]);
  server = await startCoderServer({ env: { CODER_PROVISIONER_DAEMONS: '3' } });
  await firstUser(server);
});
after(async () => {
  if (skip) return;
  await server.stop();
  rmSync(scratch, { recursive: true, force: true });
});

/** The real uid of a process. */
const uidOf = (pid: number) => Number(/^Uid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]);

function cwdOf(pid: number): string {
  return spawnSync('readlink', [`/proc/${pid}/cwd`], { encoding: 'utf8' }).stdout.trim();
}

/** Builds a workspace that runs a script, and returns the output of the script. */
async function outputOf(name: string, script: string): Promise<string> {
  const template = await makeTemplate(server, name, {
    ...commandTemplate('sh ./script.sh'),
    'script.sh': script,
  });
  const build = await buildEnds(server, (await createWorkspace(server, template, name)).latest_build.id);
  assert.equal(build.status, 'running', build.job.error ?? '');
  return buildLog(server, build.id);
}

test('template code cannot read the daemon, its files or another build', { skip }, async () => {
  // a running build of another owner
  const [begun, gate] = [join(scratch, 'begun'), join(scratch, 'gate')];
  const victim = await makeTemplate(
    server,
    'victim',
    commandTemplate(`echo canary-state > canary; touch ${begun}; while [ ! -e ${gate} ]; do sleep 0.05; done`),
  );
  const running = await createWorkspace(server, victim, 'victim');
  await eventually('the other build runs', () => existsSync(begun));
  const daemon = await server.daemonsPid();
  const folder = cwdOf(daemon);
  const session = globSync(join(folder, 'provisioner-*/work/Session*')).find((dir) =>
    existsSync(join(dir, 'template/canary')),
  )!;
  // a runner writes it a moment after its process begins
  const started = await eventually('its process is noted', () => globSync(join(session, '*-apply-*.started'))[0]);
  const other = JSON.parse(readFileSync(started, 'utf8')) as { pid: number };
  const [socket] = globSync(join(dirname(folder), 'server-*/daemons.sock'));
  const launcher = join(dirname(socket!), 'launcher.sock');
  const base = dirname(folder);
  const connect = `'${process.execPath}' -e 'require("net").connect(process.argv[1]).on("connect", () => console.log("GOT connection " + process.argv[1])).on("error", () => {})'`;
  const text = await outputOf(
    'attack',
    `
got() { if [ "$2" = 0 ]; then echo "GOT $1"; fi; }
reads() { dd if="$1" of=/dev/null bs=1 count=1 2>/dev/null; got "$1" $?; }
lists() { ls "$1" >/dev/null 2>&1; got "$1" $?; }
writes() { touch "$1/planted" 2>/dev/null; got "write $1" $?; }
echo "I AM $(id -u) IN $(pwd)"
lists /tmp && echo CONTROL
for pid in ${daemon} ${other.pid} ${server.child.pid}; do
  reads /proc/$pid/environ; lists /proc/$pid/fd; lists /proc/$pid/cwd; reads /proc/$pid/auxv
  address=$(head -1 /proc/$pid/maps 2>/dev/null) && [ -n "$address" ] && echo "GOT maps of $pid"
  (exec 3</proc/$pid/mem) 2>/dev/null; got "/proc/$pid/mem" $?
  kill -0 $pid 2>/dev/null; got "signal to $pid" $?
done
tr '\\0' ' ' < /proc/${daemon}/cmdline
for dir in ${base} ${base}/uids ${base}/homes ${folder} ${folder}/home ${folder}/tf ${folder}/tf/versions ${dirname(session)} ${session} ${session}/template ${session}/out ${server.configDir}; do
  lists $dir; writes $dir
done
for file in ${session}/job.bin ${session}/journal.json ${session}/template/canary ${session}/template/main.tf ${session}/template/terraform.tfstate ${server.configDir}/uids.json ${folder}/tf/runner.log; do
  reads $file
done
ln -s ${session}/job.bin stolen && reads stolen
ln ${session}/job.bin linked 2>/dev/null; got "hard link" $?
for home in ${base}/homes/*; do [ "$home" = "$HOME" ] || lists "$home"; done
${connect} ${socket}
${connect} ${launcher}
echo HOME IS $(stat -c '%a %u' "$HOME")
`,
  );
  const [uidOfDaemon, uidOfOther] = [uidOf(daemon), uidOf(other.pid)];
  // the process of the other build ends
  writeFileSync(gate, '');
  assert.match(text, /CONTROL/);
  assert.match(text, /GOT \/tmp/, 'the check reports readable folders');
  const got = [...text.matchAll(/GOT .*/g)].map(([line]) => line).filter((line) => line !== 'GOT /tmp');
  assert.deepEqual(got, []);
  const me = Number(/I AM (\d+)/.exec(text)![1]);
  assert.ok(me !== 0 && me !== uidOfDaemon && me !== uidOfOther);
  assert.notEqual(uidOfDaemon, 0);
  assert.match(text, new RegExp(`HOME IS 700 ${me}`));
  const build = await buildEnds(server, running.latest_build.id);
  assert.equal(build.status, 'running', build.job.error ?? '');
});

test("processes of the daemon's own uid cannot read its memory", { skip }, async () => {
  const daemon = await server.daemonsPid();
  const uid = uidOf(daemon);
  for (const file of ['environ', 'mem', 'maps', 'auxv']) {
    const read = spawnSync('head', ['-c', '1', `/proc/${daemon}/${file}`], { uid, gid: uid, encoding: 'utf8' });
    assert.match(read.stderr, /Permission denied/, file);
  }
});

test('an installation records its uids, and another one gets different uids', { skip }, async () => {
  const { first, count } = JSON.parse(readFileSync(join(server.configDir, 'uids.json'), 'utf8')) as Record<
    string,
    number
  >;
  assert.equal(uidOf(await server.daemonsPid()), first);
  const other = await startCoderServer();
  try {
    const others = uidOf(await other.daemonsPid());
    assert.ok(others < first! || others >= first! + count!);
  } finally {
    await other.stop();
  }
});

test('workspaces of one owner always run as the same named user with a private home', { skip }, async () => {
  const named = spawnSync('sh', ['-c', 'command -v useradd groupadd'], { encoding: 'utf8' }).status === 0;
  const text = await outputOf(
    'named',
    'echo "WHO $(whoami 2>&1) $(id -u) $HOME"; ssh -G example.com >/dev/null && echo SSH OK',
  );
  const [, name, uid, home] = /WHO (\S+) (\d+) (\S+)/.exec(text) ?? [];
  if (named) {
    assert.match(name ?? '', /^coder-admin(-\d+)?$/, text);
    assert.match(text, /SSH OK/);
  }
  assert.equal(statSync(home!).mode & 0o777, 0o700);
  assert.equal(statSync(home!).uid, Number(uid));
});

test('a build that calls the provider late succeeds', { skip }, async () => {
  // Terraform checks the provider's process every second and must be able to signal it
  const files = commandTemplate('true');
  const template = await makeTemplate(server, 'late', {
    'main.tf': files['main.tf']!.replace('command = "true"', 'when = destroy\n command = "sleep 2.5"'),
  });
  const workspace = await createWorkspace(server, template, 'late');
  assert.equal((await buildEnds(server, workspace.latest_build.id)).status, 'running');
  const path = `/workspaces/${workspace.id}/builds`;
  const { body } = await server.api<{ id: string }>('POST', path, { transition: 'delete' });
  const build = await buildEnds(server, body.id);
  assert.equal(build.status, 'deleted', build.job.error ?? '');
});
