import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { create } from '@bufbuild/protobuf';
import { createLogger } from '@ropewalk/kit';
import { eventually } from '@ropewalk/testkit/wait';
import { JobNotice_Kind } from '@ropewalk/wire/proto/platform_provisioner';
import { WorkspaceTransition } from '@ropewalk/wire/proto/provisioner';
import { AcquiredJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { Session } from '../job/session.ts';
import { CODER, type Harness, harness, tarOf } from '../testing/harness.ts';

const CHILD = fileURLToPath(new URL('../testing/daemon-child.ts', import.meta.url));
let h: Harness;
let children: ChildProcess[] = [];
beforeEach(async () => {
  h = await harness();
});
afterEach(async () => {
  for (const child of children) child.kill('SIGKILL');
  children = [];
  await h.close();
});

/** A build that creates `first`, then waits for a file before it creates an agent and a machine. */
async function gated(): Promise<{ job: Parameters<Harness['server']['post']>[0]; begun: string; gate: string }> {
  const begun = join(h.dir, 'begun');
  const gate = join(h.dir, 'gate');
  const archive = await tarOf({
    'main.tf': `${CODER}
resource "terraform_data" "first" {}
resource "terraform_data" "slow" {
  depends_on = [terraform_data.first]
  provisioner "local-exec" {
    command = "echo begins; touch ${begun}; while [ ! -e ${gate} ]; do sleep 0.05; done; echo goes on"
  }
}
resource "coder_agent" "main" {
  os         = "linux"
  arch       = "amd64"
  depends_on = [terraform_data.slow]
}
resource "terraform_data" "vm" { input = coder_agent.main.token }`,
  });
  const metadata = {
    coderUrl: 'http://127.0.0.1:3000',
    workspaceTransition: WorkspaceTransition.START,
    workspaceName: 'dev',
  };
  return {
    job: { templateSourceArchive: archive, type: { case: 'workspaceBuild', value: { metadata } } },
    begun,
    gate,
  };
}

function child(): ChildProcess {
  const { log: _, ...options } = h.options;
  const started = spawn(process.execPath, [CHILD, JSON.stringify(options)], {
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  children.push(started);
  return started;
}

/** Whether the daemon has noted that the server received all of the apply's log so far. */
async function delivered(): Promise<boolean> {
  const [session] = await readdir(h.options.workDir);
  const dir = join(h.options.workDir, session!);
  const name = (await readdir(dir)).find((file) => /apply.*\.log\.offset$/.test(file));
  if (!name) return false;
  const { size } = await stat(join(dir, name.replace(/\.offset$/, '')));
  return (await readFile(join(dir, name), 'utf8')) === String(size);
}

test('a daemon killed in the middle of an apply: the next one adopts the run and completes the build', async () => {
  // too long for the path of a socket, so the sockets are in another folder
  h.options.workDir = join(h.dir, 'w'.repeat(60));
  const first = child();
  const { job, begun, gate } = await gated();
  const id = h.server.post(job);
  await eventually('the apply', () => existsSync(begun));
  const [session] = await readdir(h.options.workDir);
  const sockets = join(tmpdir(), await readFile(join(h.options.workDir, session!, 'sockets'), 'utf8'));
  assert.ok(existsSync(sockets));
  await eventually('the first lines', () => h.server.text.includes('begins'));
  // The server receives lines at least once: the next daemon sends those again that the dead one sent but did not note.
  await eventually('the note that they arrived', delivered);
  first.kill('SIGKILL');
  await once(first, 'exit');
  h.start();
  await eventually('the resume', () => h.server.resumed.some(({ jobId, epoch }) => jobId === id && epoch === 7n));
  await writeFile(gate, '');
  const { completed, failed } = await h.server.verdict(id);
  assert.equal(failed, undefined);
  assert.ok(completed?.type.case === 'workspaceBuild');
  const vm = completed.type.value.resources.find(({ name }) => name === 'vm');
  assert.equal(vm?.agents[0]?.name, 'main');
  assert.ok(completed.type.value.timings.some(({ resource }) => resource === 'terraform_data.slow'));
  const outputs = h.server.logs.map(({ output }) => output);
  assert.equal(outputs.filter((output) => output.endsWith('(local-exec): begins')).length, 1);
  assert.equal(outputs.filter((output) => output.endsWith('(local-exec): goes on')).length, 1);
  await eventually('an empty work directory', async () => (await readdir(h.options.workDir)).length === 0);
  assert.ok(!existsSync(sockets), 'the directory of its sockets is gone');
});

test('the next daemon repeats lines that a killed daemon sent but did not note, under the same numbers', async () => {
  const begun = join(h.dir, 'begun');
  const gate = join(h.dir, 'gate');
  const archive = await tarOf({
    'main.tf': `resource "terraform_data" "slow" {
  provisioner "local-exec" {
    command = "seq 1 500; touch ${begun}; while [ ! -e ${gate} ]; do sleep 0.05; done; seq 501 600"
  }
}`,
  });
  const metadata = { workspaceTransition: WorkspaceTransition.START, workspaceName: 'dev' };
  const first = child();
  const id = h.server.post({ templateSourceArchive: archive, type: { case: 'workspaceBuild', value: { metadata } } });
  await eventually('the apply', () => existsSync(begun));
  await eventually('its lines', () => h.server.text.includes('(local-exec): 500'));
  await eventually('the note that they arrived', delivered);
  first.kill('SIGKILL');
  await once(first, 'exit');
  // as if the daemon had died before it noted more than the beginning
  const [session] = await readdir(h.options.workDir);
  const dir = join(h.options.workDir, session!);
  const note = join(dir, (await readdir(dir)).find((file) => /apply.*\.log\.offset$/.test(file))!);
  const log = await readFile(note.replace(/\.offset$/, ''), 'utf8');
  await writeFile(note, String(Buffer.byteLength(log.split('\n').slice(0, 20).join('\n')) + 1));
  await writeFile(gate, '');
  h.start();
  assert.ok((await h.server.verdict(id)).completed);
  const numbers = (lines: { output: string }[]) =>
    lines.flatMap(({ output }) => /\(local-exec\): (\d+)$/.exec(output)?.[1] ?? []).map(Number);
  assert.ok(numbers(h.server.logs).length > 1_000, 'the server received lines twice');
  assert.deepEqual(
    numbers(h.server.stored),
    Array.from({ length: 600 }, (_, i) => i + 1),
  );
  const stages = h.server.stored.filter(({ output }) => output === '').map(({ stage }) => stage);
  assert.deepEqual(stages, ['Setting up', 'Planning infrastructure', 'Starting workspace', 'Cleaning Up']);
});

test('tries an unfinished job again when the obstacle is gone', async () => {
  const first = child();
  const { job, begun, gate } = await gated();
  const id = h.server.post(job);
  await eventually('the apply', () => existsSync(begun));
  const [session] = await readdir(h.options.workDir);
  const kept = join(h.options.workDir, session!, 'job.bin');
  first.kill('SIGKILL');
  await once(first, 'exit');
  await rename(kept, `${kept}.away`);
  const lines: string[] = [];
  const log = createLogger({ sinks: [{ format: 'human', write: (line) => lines.push(line) }] });
  h.start({ adoptEveryMs: 1_000, log });
  await eventually('it was left', () => lines.some((line) => line.includes('job left unfinished')));
  await rename(`${kept}.away`, kept);
  await writeFile(gate, '');
  const { completed } = await h.server.verdict(id);
  assert.ok(completed?.type.case === 'workspaceBuild');
  assert.ok(completed.type.value.resources.some(({ name }) => name === 'vm'));
  await eventually('an empty work directory', async () => (await readdir(h.options.workDir)).length === 0);
});

test('delivers a verdict that could not be stored', async () => {
  h.start();
  const { job, begun, gate } = await gated();
  const id = h.server.post(job);
  await eventually('the apply', () => existsSync(begun));
  const [session] = await readdir(h.options.workDir);
  await mkdir(join(h.options.workDir, session!, 'verdict.bin'));
  await writeFile(gate, '');
  const { completed } = await h.server.verdict(id);
  assert.ok(completed?.type.case === 'workspaceBuild');
  assert.ok(completed.type.value.resources.some(({ name }) => name === 'vm'));
});

test('accepts no jobs while its work directory is not writable', async () => {
  const lines: string[] = [];
  const log = createLogger({ sinks: [{ format: 'human', write: (line) => lines.push(line) }] });
  h.start({ log });
  await eventually('it is connected', () => h.server.sessions.size === 1);
  await eventually('it waits for jobs', () => existsSync(h.options.workDir));
  const first = await gated();
  const id = h.server.post(first.job);
  await eventually('the apply', () => existsSync(first.begun));
  // the next check finds a file instead of the folder
  await rename(h.options.workDir, `${h.options.workDir}-away`);
  await writeFile(h.options.workDir, 'a file instead of the folder');
  await writeFile(first.gate, '');
  await h.server.verdict(id);
  await eventually('it accepts no jobs', () => lines.some((line) => line.includes('not accepting jobs')));
  const second = h.server.post({ ...first.job });
  await rm(h.options.workDir);
  await eventually('it accepts jobs again', () => lines.some((line) => line.includes('accepting jobs again')));
  assert.ok((await h.server.verdict(second)).completed);
});

test('a job during which four daemons died fails instead of starting again', async () => {
  const { job } = await gated();
  const acquired = create(AcquiredJobSchema, { provisioner: 'terraform', jobId: crypto.randomUUID(), ...job });
  const session = await Session.create(h.options.workDir, acquired, 7n);
  await session.write({ deaths: 3, owner: { pid: 2 ** 30, startTime: 'long ago' } });
  h.start();
  const { failed } = await h.server.verdict(acquired.jobId);
  assert.match(failed?.error ?? '', /daemon died 4 times while it prepared this job/);
});

test('once: an adopted job is the only job', async () => {
  const first = child();
  const { job, begun, gate } = await gated();
  const id = h.server.post(job);
  await eventually('the apply', () => existsSync(begun));
  first.kill('SIGKILL');
  await once(first, 'exit');
  h.server.post(job);
  const second = h.start({ once: true });
  await writeFile(gate, '');
  await second.done;
  assert.deepEqual(
    h.server.completed.map(({ jobId }) => jobId),
    [id],
  );
});

for (const kept of [true, false]) {
  const which = kept ? '' : ' before the verdict is stored';
  test(`a daemon killed during the delivery${which}: the next one delivers the verdict and the end of the log`, async () => {
    const first = child();
    const { job, gate } = await gated();
    await writeFile(gate, '');
    h.server.holdVerdicts = true;
    const id = h.server.post(job);
    await eventually('a verdict', () => h.server.heldVerdicts > 0);
    const [session] = await readdir(h.options.workDir);
    const path = join(h.options.workDir, session!, 'journal.json');
    const journal = await eventually('the stored verdict', async () => {
      const read = JSON.parse(await readFile(path, 'utf8'));
      return read.phase === 'verdict' && read;
    });
    first.kill('SIGKILL');
    await once(first, 'exit');
    if (!kept) await writeFile(path, JSON.stringify({ ...journal, phase: 'apply' }));
    h.server.holdVerdicts = false;
    h.start();
    assert.ok((await h.server.verdict(id)).completed);
    assert.equal(h.server.completed.length, 1);
    const stages = h.server.stored.filter(({ output }) => output === '').map(({ stage }) => stage);
    assert.deepEqual(stages, ['Setting up', 'Planning infrastructure', 'Starting workspace', 'Cleaning Up']);
    assert.equal(h.server.stored.filter(({ output }) => /^Apply complete/.test(output)).length, 1);
  });
}

test('a server that cannot take a verdict with the end of the log gets them one after the other', async () => {
  h.server.finishes = false;
  h.start();
  const { job, gate } = await gated();
  await writeFile(gate, '');
  assert.ok((await h.server.verdict(h.server.post(job))).completed);
  assert.equal(h.server.stored.at(-1)?.stage, 'Cleaning Up');
});

for (const noted of [true, false]) {
  const which = noted ? '' : ' and whose start was not stored';
  test(`a run whose processes all died${which} fails with its last state`, async () => {
    const first = child();
    const { job, begun, gate } = await gated();
    const id = h.server.post(job);
    await eventually('the apply', () => existsSync(begun));
    const [session] = await readdir(h.options.workDir);
    const dir = join(h.options.workDir, session!);
    const started = await eventually('the note of its start', async () => {
      const name = (await readdir(dir)).find((file) => /apply.*\.started$/.test(file));
      return name && join(dir, name);
    });
    const journal = await eventually('the note of its runner', async () => {
      const read = JSON.parse(await readFile(join(dir, 'journal.json'), 'utf8'));
      return read.run && read;
    });
    const { pid } = JSON.parse(await readFile(started, 'utf8'));
    first.kill('SIGKILL');
    process.kill(journal.run.runner.pid, 'SIGKILL');
    process.kill(-pid, 'SIGKILL');
    // listened for in the turn of the kill: an exit that nobody listens for is missed
    await once(first, 'exit');
    // as on a full disk
    if (!noted) await rm(started);
    await writeFile(gate, '');
    h.start();
    const { failed } = await h.server.verdict(id);
    assert.match(failed?.error ?? '', /have died/);
    assert.ok(failed?.type.case === 'workspaceBuild');
    assert.match(Buffer.from(failed.type.value.state).toString(), /"first"/);
  });
}

test('a lost connection during a job: the daemon resumes the job, and the log stays in order', async () => {
  h.start();
  const { job, begun, gate } = await gated();
  const id = h.server.post(job);
  await eventually('the apply', () => existsSync(begun));
  h.server.cut();
  await writeFile(gate, '');
  assert.ok((await h.server.verdict(id)).completed);
  assert.ok(h.server.resumed.length >= 1);
  const outputs = h.server.logs.map(({ output }) => output);
  const at = (text: string) => outputs.findIndex((output) => output.includes(text));
  assert.ok(at('(local-exec): begins') >= 0 && at('(local-exec): begins') < at('(local-exec): goes on'));
});

test('an expired lease: the daemon stops the run and delivers only its state', async () => {
  h.start();
  const { job, begun } = await gated();
  const id = h.server.post(job);
  await eventually('the apply', () => existsSync(begun));
  h.server.acceptResume = false;
  h.server.cut();
  const state = await eventually('the state', () => h.server.delivered[0]);
  assert.equal(state.jobId, id);
  assert.equal(state.epoch, 7n);
  assert.match(Buffer.from(state.state).toString(), /"first"/);
  assert.deepEqual([h.server.completed.length, h.server.failed.length], [0, 0]);
});

test('checkpoints name the complete and the unfinished resources', async () => {
  h.start();
  const { job, begun, gate } = await gated();
  const id = h.server.post(job);
  await eventually('the apply', () => existsSync(begun));
  const since = performance.now();
  const found = await eventually('a checkpoint', () =>
    h.server.checkpoints.find(({ inFlight }) => inFlight.includes('terraform_data.slow')),
  );
  assert.ok(performance.now() - since < 10_000);
  assert.match(Buffer.from(found.state).toString(), /"first"/);
  assert.ok(found.serial > 0n && found.lineage !== '');
  await writeFile(gate, '');
  assert.ok((await h.server.verdict(id)).completed);
});

test('a pushed cancel interrupts terraform, and the failure includes the state', async () => {
  h.start();
  const { job, begun } = await gated();
  const id = h.server.post(job);
  await eventually('the apply', () => existsSync(begun));
  // no heartbeat cancels this job, and nothing else ends the apply
  h.server.notify(id, JobNotice_Kind.CANCEL);
  const { failed } = await h.server.verdict(id);
  assert.match(failed?.error ?? '', /^terraform apply: /);
  assert.ok(failed?.type.case === 'workspaceBuild');
  assert.match(Buffer.from(failed.type.value.state).toString(), /"first"/);
});

test('kills the process group of a terraform that does not stop', async () => {
  const begun = join(h.dir, 'begun');
  const deaf = join(h.dir, 'terraform');
  const script = `#!/bin/sh
[ "$1" = apply ] || exec terraform "$@"
trap '' INT TERM
touch ${begun}
while true; do sleep 0.1; done
`;
  await writeFile(deaf, script, { mode: 0o755 });
  h.start({ exitTimeoutMs: 300, terraformBinaries: [deaf] });
  const { job } = await gated();
  const id = h.server.post(job);
  await eventually('the apply', () => existsSync(begun));
  h.server.notify(id, JobNotice_Kind.CANCEL);
  const { failed } = await h.server.verdict(id);
  assert.match(failed?.error ?? '', /^terraform apply: signal: SIGKILL/);
});

test('a drained daemon finishes its job and accepts no other', async () => {
  const daemon = h.start();
  const { job, begun, gate } = await gated();
  const id = h.server.post(job);
  await eventually('the apply', () => existsSync(begun));
  daemon.drain();
  h.server.post(job);
  await writeFile(gate, '');
  assert.ok((await h.server.verdict(id)).completed);
  await daemon.done;
  assert.equal(h.server.completed.length, 1);
});

test('too much output does not fail the build: the log has head, tail and a note about the cut', async () => {
  h.start();
  // Terraform needs 0.6 s for each MB that a provisioner prints. recorder.test.ts tests 100 MB.
  const archive = await tarOf({
    'main.tf': `resource "terraform_data" "loud" {
  provisioner "local-exec" {
    command = "echo the head; head -c 3000000 /dev/zero | base64 -w 4000; echo the tail"
  }
}`,
  });
  const metadata = { workspaceTransition: WorkspaceTransition.START };
  const id = h.server.post({
    templateSourceArchive: archive,
    type: { case: 'workspaceBuild', value: { metadata } },
  });
  const { completed, failed } = await h.server.verdict(id, 60_000);
  assert.ok(completed, failed?.error ?? '');
  const { text } = h.server;
  assert.match(text, /\(local-exec\): the head/);
  assert.match(text, /\(local-exec\): the tail/);
  assert.match(text, /… \d+ lines \(\d+ bytes\) of output left out …/);
});
