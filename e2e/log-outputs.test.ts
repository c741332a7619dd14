import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect } from '@ropewalk/server/db/connect';
import { type SmallDisk, smallDisk } from '@ropewalk/testkit/disk';
import { makeKey, startDaemon } from './daemon-process.ts';
import {
  type Build,
  buildEnds,
  commandTemplate,
  createWorkspace,
  eventually,
  firstUser,
  makeTemplate,
  PROGRAM,
  type ServerProcess,
  startCoderServer,
} from './harness.ts';

// Tests server, built-in daemons, runner, external daemons and agents with logs that cannot be written.

const LOST = /\d+ log lines? (was|were) lost: no space left on device/;

/** The coder command that appends its stderr to a file. */
const into = (path: string) => ['/bin/sh', '-c', 'exec "$@" 2>>"$0"', path, ...PROGRAM];

async function agentToken(server: ServerProcess, buildId: string): Promise<string> {
  const sql = connect(server.databaseUrl!, { max: 1 });
  const [row] = await sql<{ token: string }[]>`SELECT a.auth_token AS token FROM workspace_agents a
    JOIN workspace_resources r ON r.id = a.resource_id JOIN workspace_builds b ON b.job_id = r.job_id
    WHERE b.id = ${buildId}`;
  await sql.end();
  return row!.token;
}

const ready = async (server: ServerProcess, buildId: string) => {
  const { body } = await server.api<Build>('GET', `/workspacebuilds/${buildId}`);
  return body.resources.some(({ agents }) => agents?.some((agent) => agent.lifecycle_state === 'ready'));
};

/**
 * Runs everything once: the built-in daemons, an external daemon, and an agent that connects and ends after a signal.
 */
async function work(server: ServerProcess, disk: SmallDisk | undefined): Promise<void> {
  await firstUser(server);
  const template = await makeTemplate(server, 'plain', commandTemplate('true'));
  const workspace = await createWorkspace(server, template, 'one');
  const build = await buildEnds(server, workspace.latest_build.id);
  assert.equal(build.status, 'running', build.job.error ?? '');

  const tags = { at: 'rack' };
  const key = await makeKey(server, 'rack', tags);
  const daemon = await startDaemon(server, {
    name: 'rack',
    early: true,
    args: ['--key', key, ...(disk ? ['--log-human', join(disk.dir, 'daemon.log')] : [])],
    ...(disk ? { program: into(join(disk.dir, 'daemon.err')) } : {}),
  });
  if (!disk) daemon.child.stderr!.destroy();
  const tagged = await makeTemplate(server, 'tagged', commandTemplate('true'), { tags });
  const second = await createWorkspace(server, tagged, 'two');
  const other = await buildEnds(server, second.latest_build.id);
  assert.equal(other.status, 'running', other.job.error ?? '');

  const stderr = disk ? openSync(join(disk.dir, 'agent.err'), 'a') : 'pipe';
  const [file, ...first] = PROGRAM;
  const args = ['agent', '--verbose', ...(disk ? ['--log-human', join(disk.dir, 'agent.log')] : [])];
  const agent = spawn(file!, [...first, ...args], {
    env: { ...server.env, CODER_AGENT_URL: server.url, CODER_AGENT_TOKEN: await agentToken(server, build.id) },
    stdio: ['ignore', 'pipe', stderr],
  });
  agent.stdout!.destroy();
  agent.stderr?.destroy();
  const agentEnd = new Promise((resolve) => agent.once('exit', (code, signal) => resolve(code ?? signal)));
  // it has logged its connection, which the server sees first
  await eventually('the agent is ready', () => ready(server, workspace.latest_build.id));
  disk?.empty();
  agent.kill('SIGTERM');
  daemon.child.kill('SIGTERM');
  assert.equal(await agentEnd, 0);
  assert.equal(await daemon.exited, 0);
  if (typeof stderr === 'number') closeSync(stderr);
}

test('a full disk under all logs ends no process, and the logs report the loss when the disk has room again', async (t) => {
  const disk = smallDisk(256);
  if (typeof disk === 'string') return t.skip(disk);
  t.after(() => disk.remove());
  // the files exist, but the disk is full
  const files = ['server.log', 'server.err', 'daemon.log', 'daemon.err', 'agent.log', 'agent.err'];
  for (const name of files) closeSync(openSync(join(disk.dir, name), 'a'));
  disk.fill();
  const server = await startCoderServer({
    program: into(join(disk.dir, 'server.err')),
    env: { CODER_LOGGING_HUMAN: join(disk.dir, 'server.log') },
  });
  t.after(() => server.stop());
  const daemons = await server.daemonsPid();
  await work(server, disk);
  assert.equal(await server.daemonsPid(), daemons, 'the built-in daemons are the first ones');
  assert.equal(await server.terminate(), 0);
  for (const name of ['server.log', 'server.err', 'daemon.log', 'agent.log'])
    assert.match(readFileSync(join(disk.dir, name), 'utf8'), LOST, name);
});

test('every process continues without a reader of stdout and stderr', async (t) => {
  const server = await startCoderServer();
  t.after(() => server.stop());
  server.child.stdout!.destroy();
  server.child.stderr!.destroy();
  const daemons = await server.daemonsPid();
  await work(server, undefined);
  assert.equal(await server.daemonsPid(), daemons, 'the built-in daemons are the first ones');
  assert.equal(await server.terminate(), 0);
});

test('the server writes a JSON log to a file, and debug lines if it is verbose', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'logs-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  for (const verbose of [true, false]) {
    const path = join(dir, `${verbose}.log`);
    const env = { CODER_LOGGING_JSON: path, CODER_VERBOSE: `${verbose}`, CODER_PROVISIONER_DAEMONS: '1' };
    const server = await startCoderServer({ env });
    t.after(() => server.stop());
    const lines = () => readFileSync(path, 'utf8').split('\n').slice(0, -1);
    await eventually('the daemon is connected', () =>
      lines().some((line) => (JSON.parse(line) as { msg: string }).msg === 'provisioner daemon connected'),
    );
    const debugs = () => /\[debug\] provisioner: successfully connected/.test(server.log());
    if (verbose) await eventually('the daemon logs its connection', debugs);
    const ended = new Promise((resolve) => server.child.once('close', resolve));
    server.child.kill('SIGTERM');
    await ended;
    assert.equal(debugs(), verbose);
  }
});
