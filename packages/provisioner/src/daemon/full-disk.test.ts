import assert from 'node:assert/strict';
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { createLogger } from '@ropewalk/kit';
import { smallDisk } from '@ropewalk/testkit/disk';
import { eventually } from '@ropewalk/testkit/wait';
import { WorkspaceTransition } from '@ropewalk/wire/proto/provisioner';
import { harness, tarOf } from '../testing/harness.ts';
import { runDaemonGroup } from './group.ts';

/** More than the pipes between a command, Terraform and its runner hold: most are read before the command ends. */
const LINES = 2_000;

/** A build whose command runs in the session's folder. */
async function build(command: string) {
  const archive = await tarOf({
    'main.tf': `resource "terraform_data" "full" {
  provisioner "local-exec" { command = ${JSON.stringify(command)} }
}`,
  });
  const metadata = { workspaceTransition: WorkspaceTransition.START };
  return { templateSourceArchive: archive, type: { case: 'workspaceBuild' as const, value: { metadata } } };
}

const fill = 'head -c 100000000 /dev/zero > fill 2>/dev/null';
const loud = `i=0; while [ $i -lt ${LINES} ]; do echo "line $i ${'x'.repeat(200)}"; i=$((i+1)); done`;

async function start(t: { after(fn: () => unknown): void }, options: { fullPauseMs: number; names: string[] }) {
  const disk = smallDisk(4096);
  if (typeof disk === 'string') return disk;
  const h = await harness();
  chmodSync(h.dir, 0o755);
  const said: string[] = [];
  const group = await runDaemonGroup({
    ...h.options,
    fullPauseMs: options.fullPauseMs,
    members: options.names.map((name) => ({ name, workDir: join(disk.dir, name) })),
    log: createLogger({ sinks: [{ format: 'human', write: (line) => said.push(line) }] }),
  });
  t.after(async () => {
    for (const step of ['kill', 'abandon'] as const) group.stop(step);
    await group.done.catch(() => {});
    await h.close();
    disk.remove();
  });
  /** A separate daemon on another disk. */
  return { disk, server: h.server, said, start: () => h.start() };
}

test('a full disk: the error names it, the log counts its lost lines, and all daemons of the process pause', async (t) => {
  const at = await start(t, { fullPauseMs: 60_000, names: ['one', 'two'] });
  if (typeof at === 'string') return t.skip(at);
  const { server, said, disk } = at;
  const { failed } = await server.verdict(server.post(await build(`${fill}; ${loud}; exit 1`)));
  assert.match(failed!.error, /^terraform apply: /);
  assert.ok(failed!.error.includes(`No space left on device: the disk of ${disk.dir}/`), failed!.error);
  const output = server.stored.map((line) => line.output);
  assert.ok(
    output.some((line) => /^\d+ lines were lost: no space left on device/.test(line)),
    output.slice(-5).join('\n'),
  );
  await eventually('it pauses', () => said.filter((line) => /not accepting jobs for a while/.test(line)).length === 2);
  const acquired = () => said.filter((line) => line.includes('acquired a job')).length;
  const next = server.post(await build('true'));
  at.start();
  assert.ok((await server.verdict(next)).completed, 'a daemon with room takes the next job');
  assert.equal(acquired(), 1);
});

test('a temporarily full disk: the build succeeds, and its log counts its lost lines', async (t) => {
  const at = await start(t, { fullPauseMs: 10, names: ['one'] });
  if (typeof at === 'string') return t.skip(at);
  const { server } = at;
  const command = `${fill}; ${loud}; rm fill; echo afterwards`;
  const { completed, failed } = await server.verdict(server.post(await build(command)));
  assert.ok(completed, failed?.error ?? '');
  const output = server.stored.map((line) => line.output);
  const notices = output.flatMap((line) => /^(\d+) lines were lost: no space left on device/.exec(line)?.[1] ?? []);
  assert.ok(notices.length > 0, output.join('\n').slice(-1000));
  const lost = notices.reduce((sum, count) => sum + Number(count), 0);
  const missing = LINES - output.filter((line) => / line \d+ x/.test(line)).length;
  // a few other lines may be lost, and Terraform splits a line when the command pauses in it
  assert.ok(lost >= missing && lost < missing + 20, `${lost} lines were reported as lost, ${missing} are missing`);
  assert.ok(output.some((line) => line.includes('afterwards')));
});

test('returns a job to the queue three times if the disk is full, pauses each time, and then fails the job', async (t) => {
  const at = await start(t, { fullPauseMs: 1, names: ['one'] });
  if (typeof at === 'string') return t.skip(at);
  const { disk, said, server } = at;
  const acquired = () => said.filter((line) => line.includes('acquired a job')).length;
  const job = { ...(await build('true')), jobId: crypto.randomUUID() };
  for (let times = 1; times <= 3; times++) {
    await eventually('it waits', () => server.waiting > 0);
    disk.fill();
    server.post(job);
    await eventually(
      'it connects again, because our server puts the job back after a lost connection',
      () => server.dials.length === times + 1,
    );
    assert.equal(acquired(), times);
    await eventually('it pauses', () => said.filter((line) => /not accepting jobs/.test(line)).length >= times);
    disk.empty();
  }
  assert.deepEqual(server.failed, []);
  await eventually('it waits', () => server.waiting > 0);
  disk.fill();
  const { failed } = await server.verdict(server.post(job));
  assert.match(failed!.error, /^The provisioner daemon "one" could not start this job: ENOSPC/);
  disk.empty();
  assert.ok(
    (await server.verdict(server.post(await build('true')))).completed,
    'jobs work again when the disk has room',
  );
});
