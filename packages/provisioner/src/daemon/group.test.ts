import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { eventually } from '@ropewalk/testkit/wait';
import { WorkspaceTransition } from '@ropewalk/wire/proto/provisioner';
import { type Harness, harness, tarOf } from '../testing/harness.ts';
import { type DaemonGroup, type GroupOptions, runDaemonGroup } from './group.ts';
import type { DaemonMetrics } from './metrics.ts';

let h: Harness;
let groups: DaemonGroup[];
beforeEach(async () => {
  h = await harness();
  groups = [];
});
afterEach(async () => {
  for (const group of groups) for (const step of ['kill', 'abandon'] as const) group.stop(step);
  await Promise.allSettled(groups.map(({ done }) => done));
  await h.close();
});

/** A group of daemons with a directory each. The group ends with its test. */
async function startGroup(names: string[], changes: Partial<GroupOptions> = {}): Promise<DaemonGroup> {
  const members = names.map((name) => ({ name, workDir: join(h.dir, name) }));
  const group = await runDaemonGroup({ ...h.options, members, ...changes });
  groups.push(group);
  return group;
}

async function gated(
  name: string,
  after = '',
): Promise<{ id: string; begun: () => boolean; release: () => Promise<void> }> {
  const begun = join(h.dir, `${name}-begun`);
  const gate = join(h.dir, `${name}-gate`);
  const command = `touch ${begun}; while [ ! -e ${gate} ]; do sleep 0.05; done; ${after}`;
  const archive = await tarOf({
    'main.tf': `resource "terraform_data" "slow" {
  provisioner "local-exec" { command = ${JSON.stringify(command)} }
}`,
  });
  const metadata = { workspaceTransition: WorkspaceTransition.START };
  const id = h.server.post({ templateSourceArchive: archive, type: { case: 'workspaceBuild', value: { metadata } } });
  return { id, begun: () => existsSync(begun), release: () => writeFile(gate, '') };
}

test('stop: the first call drains, the second cancels, the third kills', async () => {
  const group = await startGroup(['one', 'two']);
  const first = await gated('first');
  const second = await gated('second');
  await eventually('two builds at the same time', () => first.begun() && second.begun());
  assert.equal(group.stop(), 'drain');
  await first.release();
  assert.ok((await h.server.verdict(first.id)).completed, 'a drained daemon finishes its build');
  assert.equal(group.stop(), 'cancelActive');
  assert.match((await h.server.verdict(second.id)).failed?.error ?? '', /^terraform apply: /);
  await group.done;
  assert.equal(group.stop(), 'kill');
});

test('killed while the server is away: the daemon ends soon and keeps the verdict for the next one', async () => {
  const group = await startGroup(['alone'], { killedMs: 200 });
  const slow = await gated('slow');
  await eventually('the apply', slow.begun);
  h.server.status = 502;
  h.server.cut();
  for (const step of ['drain', 'cancelActive', 'kill']) assert.equal(group.stop(), step);
  await group.done;
  const [session] = await readdir(join(h.dir, 'alone'));
  assert.ok(session?.startsWith('Session'), 'its session remains');
});

test('once: a daemon ends after one job, whether it succeeds or fails', async () => {
  const group = await startGroup(['single'], { once: true });
  const failing = await gated('failing', 'exit 3');
  await failing.release();
  const next = await gated('next');
  await group.done;
  assert.equal(h.server.failed[0]?.jobId, failing.id);
  assert.ok(!next.begun(), 'the daemon did not take the second job');
});

test('once: a job whose folder is gone fails with that reason', async () => {
  const group = await startGroup(['single'], { once: true });
  const lost = await gated('lost');
  await eventually('the apply', lost.begun);
  // a rename is one step: the daemon writes to the folder at the same time
  await rename(join(h.dir, 'single'), join(h.dir, 'elsewhere'));
  await lost.release();
  const { failed } = await h.server.verdict(lost.id);
  assert.match(failed?.error ?? '', /^The folder of this build is gone/);
  await group.done;
});

test('a daemon that cannot create its folder fails, and closes its connection', async () => {
  await writeFile(join(h.dir, 'file'), '');
  const group = await startGroup(['good', 'file/bad']);
  await assert.rejects(group.done, /ENOTDIR/);
  await eventually('the server has no connection', () => h.server.sessions.size === 0);
});

test('reports metrics: connections, jobs with kind, outcome and seconds, and the stages of their log', async () => {
  const seen: unknown[][] = [];
  const note =
    (name: string) =>
    (...args: unknown[]) =>
      void seen.push([name, ...args]);
  const metrics: DaemonMetrics = {
    connected: note('connected'),
    jobStarted: note('started'),
    jobEnded: note('ended'),
    stageEnded: note('stage'),
  };
  const group = await startGroup(['measured'], { metrics });
  const good = await gated('good');
  await good.release();
  await h.server.verdict(good.id);
  const bad = await gated('bad', 'exit 1');
  await bad.release();
  await h.server.verdict(bad.id);
  group.stop();
  await group.done;
  const of = (name: string) => seen.filter(([what]) => what === name).map(([, ...rest]) => rest);
  assert.deepEqual(of('connected'), [
    ['measured', true],
    ['measured', false],
  ]);
  assert.deepEqual(of('started'), [['workspace_build'], ['workspace_build']]);
  assert.deepEqual(
    of('ended').map(([kind, status]) => [kind, status]),
    [
      ['workspace_build', 'completed'],
      ['workspace_build', 'failed'],
    ],
  );
  const stages = of('stage') as [string, number][];
  assert.deepEqual(
    stages.slice(0, 4).map(([stage]) => stage),
    ['Setting up', 'Planning infrastructure', 'Starting workspace', 'Cleaning Up'],
  );
  const total = stages.slice(0, 4).reduce((sum, [, seconds]) => sum + seconds, 0);
  const whole = of('ended')[0]![2] as number;
  assert.ok(total > 0 && total <= whole, `${total} s of ${whole} s`);
});
