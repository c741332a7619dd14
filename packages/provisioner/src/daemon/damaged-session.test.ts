import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, mock, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createLogger } from '@ropewalk/kit';
import { eventually } from '@ropewalk/testkit/wait';
import { WorkspaceTransition } from '@ropewalk/wire/proto/provisioner';
import { Session } from '../job/session.ts';
import { CODER, type Harness, harness, tarOf } from '../testing/harness.ts';

// What the next daemon does with the files of a job after a loss of power: a file system may then have kept the names of
// files that were just written, and not all of their content.

const CHILD = fileURLToPath(new URL('../testing/daemon-child.ts', import.meta.url));
let h: Harness;
let begun: string;
const children: ChildProcess[] = [];
before(async () => {
  h = await harness();
  begun = join(h.dir, 'begun');
});
after(async () => {
  for (const child of children) child.kill('SIGKILL');
  await h.close();
});

/** Posts a build that creates `first`, then waits for a file of this name, and starts a daemon with this folder. */
async function build(gate: string): Promise<{ id: string; workDir: string; dir: string; daemon: ChildProcess }> {
  const archive = await tarOf({
    'main.tf': `${CODER}
resource "terraform_data" "first" {}
resource "terraform_data" "slow" {
  depends_on = [terraform_data.first]
  provisioner "local-exec" {
    command = "touch ${begun}; while [ ! -e ${gate} ]; do sleep 0.05; done"
  }
}
resource "terraform_data" "vm" { depends_on = [terraform_data.slow] }`,
  });
  const metadata = { workspaceTransition: WorkspaceTransition.START, workspaceName: 'dev' };
  const id = h.server.post({ templateSourceArchive: archive, type: { case: 'workspaceBuild', value: { metadata } } });
  const workDir = join(h.dir, `work-${id}`);
  const { log: _, ...options } = { ...h.options, workDir };
  const daemon = spawn(process.execPath, [CHILD, JSON.stringify(options)], { stdio: ['ignore', 'inherit', 'inherit'] });
  children.push(daemon);
  await eventually('the apply', () => existsSync(begun));
  const [session] = readdirSync(workDir);
  return { id, workDir, dir: join(workDir, session!), daemon };
}

const journalOf = (dir: string) => JSON.parse(readFileSync(join(dir, 'journal.json'), 'utf8'));

async function kill(daemon: ChildProcess): Promise<void> {
  const exit = once(daemon, 'exit');
  daemon.kill('SIGKILL');
  await exit;
}

/** What is left of a file. */
const DAMAGES: Record<string, (path: string) => void> = {
  empty: (path) => truncateSync(path),
  'cut off': (path) => truncateSync(path, readFileSync(path).length >> 1),
  'filled with zeros': (path) => writeFileSync(path, Buffer.alloc(readFileSync(path).length)),
};

/** Starts a daemon with a copy of the folder in which something has changed, until `done`. */
async function recover(
  { workDir, dir }: { workDir: string; dir: string },
  change: (dir: string) => void,
  done: (workDir: string) => Promise<void>,
): Promise<string[]> {
  const lines: string[] = [];
  const log = createLogger({ sinks: [{ format: 'human', write: (line) => lines.push(line) }] });
  const copy = join(h.dir, `copy-${crypto.randomUUID()}`);
  cpSync(workDir, copy, { recursive: true });
  const made = dir.replace(workDir, copy);
  const moved = `${made.slice(0, -36)}${crypto.randomUUID()}`;
  cpSync(made, moved, { recursive: true });
  rmSync(made, { recursive: true });
  change(moved);
  const daemon = h.start({ workDir: copy, log, adoptEveryMs: 100 });
  let isDone = false;
  try {
    await done(copy);
    isDone = true;
  } finally {
    // a daemon that started the build again would wait for its gate for ever, and this test with it
    if (isDone) daemon.drain();
    else daemon.kill();
    await daemon.done;
    for (const list of [h.server.completed, h.server.failed, h.server.delivered]) list.splice(0);
  }
  assert.ok(!lines.some((line) => /left unfinished/.test(line)), lines.join('\n'));
  return lines;
}

const isGone = (workDir: string) => eventually('an empty folder', () => readdirSync(workDir).length === 0);

test('a build in the middle of its apply: each damaged file leaves a path for its state', async (t) => {
  const dead = await build(join(h.dir, 'never'));
  const { id, dir, daemon } = dead;
  const started = await eventually('the note of its start', () => {
    const name = readdirSync(dir).find((file) => /apply.*\.started$/.test(file));
    return name && JSON.parse(readFileSync(join(dir, name), 'utf8'));
  });
  const { run } = await eventually('the note of its runner', () => journalOf(dir).run && journalOf(dir));
  const exit = once(daemon, 'exit');
  daemon.kill('SIGKILL');
  process.kill(run.runner.pid, 'SIGKILL');
  process.kill(-started.pid, 'SIGKILL');
  await exit;

  const failed = async (error: RegExp) => {
    const verdict = await h.server.verdict(id);
    assert.match(verdict.failed?.error ?? '', error);
    assert.ok(verdict.failed?.type.case === 'workspaceBuild');
    assert.match(Buffer.from(verdict.failed.type.value.state).toString(), /"first"/);
  };
  for (const [how, damage] of Object.entries(DAMAGES)) {
    await t.test(`a journal that is ${how}: the server gets the state`, async () => {
      await recover(
        dead,
        (copy) => damage(join(copy, 'journal.json')),
        async (workDir) => {
          const delivered = await eventually('the state', () => h.server.delivered[0]);
          assert.equal(delivered.jobId, id);
          assert.match(Buffer.from(delivered.state).toString(), /"first"/);
          await isGone(workDir);
        },
      );
    });
    await t.test(`a job that is ${how}: the build fails with its state`, async () => {
      await recover(
        dead,
        (copy) => damage(join(copy, 'job.bin')),
        async (workDir) => {
          await failed(/are damaged, as after a loss of power/);
          await isGone(workDir);
        },
      );
    });
  }
  await t.test('an older journal: the build fails with its state instead of starting again', async () => {
    rmSync(begun);
    const older = (copy: string) => {
      const { run: _, ...entry } = journalOf(copy);
      writeFileSync(join(copy, 'journal.json'), JSON.stringify({ ...entry, phase: 'start' }));
    };
    await recover(dead, older, async (workDir) => {
      await failed(/stopped while Terraform worked/);
      await isGone(workDir);
    });
    assert.equal(existsSync(begun), false, 'no second apply');
  });
  await t.test('both files damaged: the folder stays, and the log says so once', async () => {
    const looks = mock.method(Session, 'adoptAll');
    const both = (copy: string) => {
      for (const name of ['journal.json', 'job.bin']) DAMAGES['empty']!(join(copy, name));
    };
    const lines = await recover(dead, both, async (workDir) => {
      await eventually('it has looked several times', () => looks.mock.callCount() > 3);
      assert.equal(readdirSync(workDir).length, 1);
    });
    looks.mock.restore();
    assert.equal(lines.filter((line) => line.includes('cannot adopt a job')).length, 1);
  });
});

test('a build whose result the server did not receive: a damaged result is read again from the run', async (t) => {
  rmSync(begun, { force: true });
  const gate = join(h.dir, 'gate');
  writeFileSync(gate, '');
  h.server.holdVerdicts = true;
  const dead = await build(gate);
  const { id, dir, daemon } = dead;
  await eventually('the stored verdict', () => journalOf(dir).phase === 'verdict');
  await kill(daemon);
  h.server.holdVerdicts = false;
  const files = ['verdict.bin', 'rest-of-log.bin'];
  for (const name of files) assert.ok(existsSync(join(dir, name)), name);
  for (const [how, damage] of Object.entries(DAMAGES)) {
    for (const name of files) {
      await t.test(`${name} ${how}`, async () => {
        await recover(
          dead,
          (copy) => damage(join(copy, name)),
          async (workDir) => {
            const { completed, failed } = await h.server.verdict(id);
            assert.equal(failed?.error, undefined);
            assert.ok(completed?.type.case === 'workspaceBuild');
            assert.ok(completed.type.value.resources.some((resource) => resource.name === 'vm'));
            assert.match(Buffer.from(completed.type.value.state).toString(), /"vm"/);
            await isGone(workDir);
          },
        );
      });
    }
  }
});

test('a result is on the disk when the server does not take it for a while, and only then', async () => {
  const file = await open('/dev/null');
  const synced = mock.method(Object.getPrototypeOf(file) as typeof file, 'sync');
  await file.close();
  const daemon = h.start({ workDir: join(h.dir, 'synced') });
  const post = async () => {
    const archive = await tarOf({ 'main.tf': `${CODER}resource "terraform_data" "vm" {}` });
    const metadata = { workspaceTransition: WorkspaceTransition.START, workspaceName: 'dev' };
    return h.server.post({ templateSourceArchive: archive, type: { case: 'workspaceBuild', value: { metadata } } });
  };
  try {
    assert.ok((await h.server.verdict(await post())).completed);
    assert.equal(synced.mock.callCount(), 0);
    h.server.holdVerdicts = true;
    await post();
    // the result, the end of the log, the journal, the state and the folder
    await eventually('five are on the disk', () => synced.mock.callCount() === 5);
  } finally {
    h.server.holdVerdicts = false;
    synced.mock.restore();
    daemon.kill();
  }
});
