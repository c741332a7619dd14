import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { connect } from '@ropewalk/server/db/connect';
import { type DaemonProcess, deleteKey, gates, makeKey, startDaemon } from './daemon-process.ts';
import {
  type Build,
  buildEnds,
  buildLog,
  coder,
  commandTemplate,
  createWorkspace,
  ensureExecutable,
  eventually,
  firstUser,
  makeTemplate,
  type ServerProcess,
  signedInEnv,
  startCoderServer,
} from './harness.ts';

const PSK = 'a-shared-key-of-the-test';
let server: ServerProcess;
const { gate, remove } = gates();

before(async () => {
  server = await startCoderServer({ env: { CODER_PROVISIONER_DAEMONS: '0', CODER_PROVISIONER_DAEMON_PSK: PSK } });
  await firstUser(server);
});
after(async () => {
  await server?.stop();
  remove();
});

/** Starts a daemon with its own key, whose tag `way` is the daemon's name. */
async function keyed(name: string, more: { args?: string[]; env?: NodeJS.ProcessEnv } = {}): Promise<DaemonProcess> {
  const key = await makeKey(server, name, { way: name });
  return startDaemon(server, { name, ...more, env: { CODER_PROVISIONER_DAEMON_KEY: key, ...more.env } });
}

/** Imports a template for daemons with this tag `way`. */
const template = (way: string, command: string) =>
  makeTemplate(server, way, commandTemplate(command), { tags: { way } });

/** Writes a program for the test and returns its path. */
function program(name: string, text: string): string {
  const path = join(server.configDir, `program-${name}`);
  writeFileSync(path, text, { mode: 0o755 });
  return path;
}

async function daemonStatus(name: string): Promise<string | undefined> {
  const { body } = await server.api<{ name: string; status: string }[]>(
    'GET',
    '/organizations/default/provisionerdaemons',
  );
  return body.find((daemon) => daemon.name === name)?.status;
}

async function stateNames(build: Build): Promise<string[]> {
  const { body } = await server.api<{ resources?: { name: string }[] }>('GET', `/workspacebuilds/${build.id}/state`);
  return (body.resources ?? []).map(({ name }) => name);
}

test('a daemon connects with a session token, pre-shared key or provisioner key, and runs the jobs that match its tags', async (t) => {
  const key = await makeKey(server, 'machine-room', { way: 'by-key' });
  const program = [await ensureExecutable()];
  const ways: Record<string, { args: string[]; env: NodeJS.ProcessEnv; program?: string[] }> = {
    'by-token': { args: ['--tag', 'way=by-token'], env: { CODER_SESSION_TOKEN: server.token } },
    'by-psk': { args: ['--psk', PSK], env: { CODER_PROVISIONERD_TAGS: 'way=by-psk,zone=eu' } },
    'by-key': { args: ['--key', key], env: {}, program },
  };
  await Promise.all(
    Object.entries(ways).map(([name, how]) =>
      t.test(name, async () => {
        const daemon = await startDaemon(server, { name, ...how });
        const id = await template(name, 'true');
        const { latest_build } = await createWorkspace(server, id, name);
        const build = await buildEnds(server, latest_build.id);
        assert.equal(build.status, 'running', build.job.error ?? '');
        assert.match(daemon.log(), /acquired a job .*type=workspaceBuild/);
        for (const secret of [key, PSK, server.token]) assert.ok(!daemon.log().includes(secret), 'a secret in the log');
        const shown = ['environ', 'cmdline'].map((file) => readFileSync(`/proc/${daemon.child.pid}/${file}`, 'utf8'));
        for (const secret of [key, PSK, server.token]) assert.ok(!shown.join().includes(secret), 'a secret in /proc');
        daemon.child.kill('SIGTERM');
        assert.equal(await daemon.exited, 0, daemon.log());
      }),
    ),
  );
});

test('a member can run daemons for their own jobs only', async () => {
  const organization = await server.api<{ id: string }>('GET', '/organizations/default');
  const person = { email: 'ann@example.com', password: 'a long enough password' };
  const made = await server.api('POST', '/users', {
    ...person,
    username: 'ann',
    organization_ids: [organization.body.id],
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const { body } = await server.api<{ session_token: string }>('POST', '/users/login', person);
  const env = { CODER_SESSION_TOKEN: body.session_token };
  const refused = await startDaemon(server, { name: 'for-all', env, early: true });
  assert.equal(await refused.exited, 1);
  assert.match(refused.log(), /^error: The server rejected this daemon: .*\(status 403\)$/m);
  const own = await startDaemon(server, { name: 'for-ann', env, args: ['--tag', 'scope=user'] });
  await own.kill();
});

test("only Terraform gets the cloud credentials of a daemon's machine, and nobody gets the daemon's key", async () => {
  const canary = 'canary-of-the-cloud';
  const mine = join(server.configDir, 'terraform-env');
  const all = join(server.configDir, 'all-processes');
  const look = `env > ${mine}; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr "\\0" "\\n" > ${all}`;
  const key = await makeKey(server, 'canary', { way: 'canary' });
  const daemon = await startDaemon(server, {
    name: 'canary',
    env: { CODER_PROVISIONER_DAEMON_KEY: key, COPY: key, AWS_SECRET_ACCESS_KEY: canary },
  });
  const { latest_build } = await createWorkspace(server, await template('canary', look), 'canary');
  const build = await buildEnds(server, latest_build.id);
  assert.equal(build.status, 'running', build.job.error ?? '');
  const env = readFileSync(mine, 'utf8');
  assert.ok(env.includes(`AWS_SECRET_ACCESS_KEY=${canary}`), 'Terraform has the credentials');
  assert.doesNotMatch(env, /CODER_PROVISIONER|CODER_URL|^COPY=/m);
  const processes = readFileSync(all, 'utf8');
  assert.match(processes, /^--name\ncanary$/m, 'the check read the daemon itself');
  assert.ok(!processes.includes(key), 'the key is in no environment and on no command line');
  assert.ok(!daemon.log().includes(canary) && !(await buildLog(server, build.id)).includes(canary), 'in a log');
  const everything = await wholeDatabase();
  assert.ok(everything.includes(latest_build.id), 'the check read the database');
  assert.ok(
    !everything.includes(canary) && !everything.includes(Buffer.from(canary).toString('hex')),
    'in the database',
  );
  await daemon.kill();
});

/** Every row of every table as text. */
async function wholeDatabase(): Promise<string> {
  const sql = connect(server.databaseUrl!, { max: 1 });
  try {
    const tables = await sql<{ name: string }[]>`SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'`;
    const texts: string[] = [];
    for (const { name } of tables)
      for (const { row } of await sql<{ row: string }[]>`SELECT t::text AS row FROM ${sql(name)} t`) texts.push(row);
    return texts.join('\n');
  } finally {
    await sql.end();
  }
}

test('after SIGTERM a daemon finishes its running build and accepts no other', async () => {
  const daemon = await keyed('drained');
  const { command, begun, open } = gate('drained');
  const id = await template('drained', command);
  const { latest_build } = await createWorkspace(server, id, 'drained');
  await eventually('the apply has begun', async () => begun() > 0);
  daemon.child.kill('SIGTERM');
  await daemon.says('draining');
  const later = await createWorkspace(server, id, 'drained-later');
  open();
  const build = await buildEnds(server, latest_build.id);
  assert.equal(build.status, 'running', build.job.error ?? '');
  assert.equal(await daemon.exited, 0, daemon.log());
  const pending = await server.api<Build>('GET', `/workspacebuilds/${later.latest_build.id}`);
  assert.equal(pending.body.job.status, 'pending');
});

for (const [name, signals, ends] of [
  ['twice', ['SIGHUP', 'SIGTERM'], /^terraform apply: exit status 1/],
  ['interrupted', ['SIGINT'], /^terraform apply: exit status 1/],
  ['thrice', ['SIGTERM', 'SIGTERM', 'SIGTERM'], /^terraform apply: signal: SIGKILL/],
] as const) {
  test(`${signals.join(', ')}: the daemon ends the running build, and the server stores its state`, async () => {
    const { command, begun } = gate(name);
    // for three signals, a terraform that ignores interrupts
    const deaf = `#!/bin/sh\n[ "$1" = apply ] || exec terraform "$@"\ntrap '' INT\n${command}\n`;
    const args = name === 'thrice' ? ['--terraform-binary', program(name, deaf)] : [];
    const daemon = await keyed(name, { args });
    const { latest_build } = await createWorkspace(server, await template(name, command), name);
    await eventually('the apply has begun', async () => begun() > 0);
    for (const [step, signal] of signals.entries()) {
      daemon.child.kill(signal);
      const last = step + 1 === signals.length;
      await daemon.says(signal === 'SIGINT' ? 'canceling' : ['draining', 'canceling', 'killing'][step]!);
      if (!last) assert.equal(daemon.child.exitCode, null);
    }
    const build = await buildEnds(server, latest_build.id);
    assert.equal(build.status, 'failed');
    assert.match(build.job.error!, ends);
    if (name !== 'thrice') assert.ok((await stateNames(build)).includes('first'), 'its final state is kept');
    assert.equal(await daemon.exited, 0, daemon.log());
  });
}

test('--once runs one job and exits with 0, also if the job fails', async () => {
  const key = await makeKey(server, 'pod', { way: 'pod' });
  const once = () =>
    startDaemon(server, { name: 'pod', args: ['--once'], env: { CODER_PROVISIONER_DAEMON_KEY: key }, early: true });
  const importing = await once();
  const id = await template('pod', 'exit 3');
  assert.equal(await importing.exited, 0, importing.log());
  const first = await createWorkspace(server, id, 'pod');
  const second = await createWorkspace(server, id, 'pod-2');
  const building = await once();
  assert.equal(await building.exited, 0, building.log());
  assert.equal((await buildEnds(server, first.latest_build.id)).status, 'failed');
  const waiting = await server.api<Build>('GET', `/workspacebuilds/${second.latest_build.id}`);
  assert.equal(waiting.body.job.status, 'pending', 'the daemon took only one job');
});

test('--concurrency 2 runs two builds at the same time in one process, with metrics of both', async () => {
  const daemon = await keyed('pair', {
    args: ['--concurrency', '2', '--prometheus-enable', '--prometheus-address', ':0'],
  });
  const { command, begun, open } = gate('pair');
  const id = await template('pair', command);
  const builds = [await createWorkspace(server, id, 'pair-a'), await createWorkspace(server, id, 'pair-b')];
  await eventually('both have begun', async () => begun() === 2);
  assert.deepEqual([await daemonStatus('pair-0'), await daemonStatus('pair-1')], ['busy', 'busy']);
  const address = /serving metrics address=0\.0\.0\.0:(\d+)/.exec(daemon.log())![1];
  const scrape = async () => (await fetch(`http://127.0.0.1:${address}/metrics`)).text();
  const during = await scrape();
  assert.match(during, /^coderd_provisionerd_jobs_current\{provisioner="terraform"\} 2$/m);
  assert.match(during, /^coder_provisioner_connected\{name="pair-1"\} 1$/m);
  open();
  for (const { latest_build } of builds) assert.equal((await buildEnds(server, latest_build.id)).status, 'running');
  const done = /^coderd_provisionerd_job_timings_seconds_count\{provisioner="terraform",status="success"\} 3$/m;
  await eventually('the metrics count three jobs', async () => done.test(await scrape()));
  assert.match(await scrape(), /^coder_provisioner_stage_seconds_count\{stage="Starting workspace"\} 2$/m);
  await daemon.kill();
});

test('a daemon with the name of another but a different key gets none of its jobs', async () => {
  const tags = { way: 'shared-name' };
  const join1 = { name: 'shared-name', env: { CODER_PROVISIONER_DAEMON_KEY: await makeKey(server, 'its-own', tags) } };
  const join2 = { name: 'shared-name', env: { CODER_PROVISIONER_DAEMON_KEY: await makeKey(server, 'another', tags) } };
  const first = await startDaemon(server, join1);
  const { command, begun, open } = gate('shared-name');
  const { latest_build } = await createWorkspace(server, await template('shared-name', command), 'shared-name');
  await eventually('the apply has begun', async () => begun() > 0);
  await first.kill();
  const other = await startDaemon(server, { ...join2, cacheDir: join(server.configDir, 'other-machine') });
  const back = await startDaemon(server, join1);
  await back.says('resumed a job');
  open();
  const build = await buildEnds(server, latest_build.id);
  assert.equal(build.status, 'running', build.job.error ?? '');
  assert.doesNotMatch(other.log(), /job=/, 'the other daemon received no job');
  await Promise.all([back.kill(), other.kill()]);
});

test('deleting a key disconnects an idle daemon within five seconds, and it cannot reconnect', async () => {
  const daemon = await keyed('idle');
  await deleteKey(server, 'idle');
  await daemon.says('connection to the server lost', 5_000);
  await daemon.says('authentication failed. Send a provisioner key', 5_000);
  assert.equal(daemon.child.exitCode, null, 'it keeps trying');
  await daemon.kill();
});

test('deleting a key cancels the running build, and the server stores its final state', async () => {
  const daemon = await keyed('revoked');
  const { command, begun } = gate('revoked');
  const { latest_build } = await createWorkspace(server, await template('revoked', command), 'revoked');
  await eventually('the apply has begun', async () => begun() > 0);
  await deleteKey(server, 'revoked');
  const build = await buildEnds(server, latest_build.id);
  assert.equal(build.status, 'canceled', build.job.error ?? '');
  assert.ok((await stateNames(build)).includes('first'), 'its final state is kept');
  await daemon.says('connection to the server lost');
  await daemon.kill();
});

test('rejects invalid options before anything starts', async () => {
  const env = signedInEnv(server);
  const refused = async (...args: string[]) => {
    const { code, stderr } = await coder(['provisioner', 'start', '--name', 'never-there', ...args], { env });
    assert.equal(code, 1, stderr);
    return stderr;
  };
  assert.match(
    await refused('--org', 'nowhere'),
    /Organization "nowhere" not found, or you don.t have access to it\. Your organizations: coder\./,
  );
  assert.match(await refused('--psk', 'wrong', '--terraform-binary', '/bin/true'), /does not answer "version"/);
  assert.match(await refused('--psk', PSK, '--org', 'nowhere'), /Organization "nowhere" not found:/);
  const deprecated = await coder(['provisionerd', 'start', '--org', 'nowhere'], { env });
  assert.match(deprecated.stderr, /^warning: `coder provisionerd start` is deprecated/);
  assert.equal(deprecated.stderr.match(/deprecated/g)?.length, 1);
  assert.equal(await daemonStatus('never-there'), undefined);
  assert.ok(!existsSync(join(server.configDir, '.cache/coder/handover')));
});
