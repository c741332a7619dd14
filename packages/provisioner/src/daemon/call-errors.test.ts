import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { afterEach, beforeEach, test } from 'node:test';
import { eventually } from '@ropewalk/testkit/wait';
import { DrpcError } from '@ropewalk/wire/drpc';
import { JOB_ERRORS } from '@ropewalk/wire/job-errors';
import { WorkspaceTransition } from '@ropewalk/wire/proto/provisioner';
import { CODER, type Harness, harness, tarOf } from '../testing/harness.ts';

// What a daemon does when the server cannot answer, or does not accept, how a job has ended.

let h: Harness;
beforeEach(async () => {
  h = await harness();
  h.server.coded = true;
});
afterEach(() => h.close());

async function build(): Promise<string> {
  const templateSourceArchive = await tarOf({ 'main.tf': 'resource "terraform_data" "vm" {}' });
  const metadata = { workspaceTransition: WorkspaceTransition.START, workspaceName: 'dev' };
  return h.server.post({ templateSourceArchive, type: { case: 'workspaceBuild', value: { metadata } } });
}

const times = (count: number, code: number, text = 'no answer now') =>
  Array.from({ length: count }, () => new DrpcError(text, code));
const noSessions = () =>
  eventually('an empty work directory', async () => (await readdir(h.options.workDir)).length === 0);

for (const [what, code] of [
  ['cannot answer', 0],
  ['fails', JOB_ERRORS.failed],
] as const) {
  test(`repeats the result of a build while the server ${what}`, async () => {
    h.server.verdictErrors = times(3, code);
    h.start();
    const { completed, failed } = await h.server.verdict(await build());
    assert.equal(failed, undefined);
    assert.ok(completed?.type.case === 'workspaceBuild');
    assert.equal(h.server.refused, 3);
    await noSessions();
  });
}

test('a result that the server rejects fails the job immediately, with the reason and the state', async () => {
  h.server.verdictErrors = times(1, JOB_ERRORS.rejected, 'a text is too long');
  h.start();
  const { completed, failed } = await h.server.verdict(await build());
  assert.equal(completed, undefined);
  assert.equal(failed?.error, 'internal provisionerserver error: a text is too long');
  assert.ok(failed.type.case === 'workspaceBuild');
  assert.match(Buffer.from(failed.type.value.state).toString(), /terraform_data/);
  await noSessions();
});

test('repeats a failure while the server cannot answer, after it rejected the result', async () => {
  h.server.verdictErrors = [...times(1, JOB_ERRORS.rejected, 'no'), ...times(2, 0)];
  h.start();
  const { failed } = await h.server.verdict(await build());
  assert.match(failed!.error, /: no$/);
  assert.equal(h.server.refused, 3);
});

test('gives a job up whose failure the server rejects, too, and offers the state', async () => {
  h.server.verdictErrors = times(2, JOB_ERRORS.rejected, 'no');
  h.start();
  const jobId = await build();
  await eventually('the state is offered', () => h.server.delivered.some((offer) => offer.jobId === jobId));
  await noSessions();
});

test('gives a job up only when the server names its ownership, and offers the state', async () => {
  h.server.verdictErrors = [...times(2, 0), ...times(1, JOB_ERRORS.notOwned, "you don't own this job")];
  h.start();
  const jobId = await build();
  await eventually('the state is offered', () => h.server.delivered.some((offer) => offer.jobId === jobId));
  assert.deepEqual([h.server.completed.length, h.server.failed.length], [0, 0]);
  await noSessions();
});

test('a server without codes ends a job with the texts of upstream', async () => {
  h.server.coded = false;
  h.server.verdictErrors = times(1, 0, "you don't own this job");
  h.start();
  const jobId = await build();
  await eventually('the state is offered', () => h.server.delivered.some((offer) => offer.jobId === jobId));
  await noSessions();
});

test('a number that no server can store fails the import immediately, in plain words', async () => {
  h.start();
  const main = `${CODER}
resource "coder_agent" "main" {
  os    = "linux"
  arch  = "amd64"
  order = 3000000000
}
resource "terraform_data" "vm" { input = coder_agent.main.id }`;
  const templateSourceArchive = await tarOf({ 'main.tf': main });
  const type = { case: 'templateImport' as const, value: { metadata: { coderUrl: 'http://127.0.0.1:3000' } } };
  const { failed } = await h.server.verdict(h.server.post({ templateSourceArchive, type }));
  assert.match(
    failed!.error,
    /coder_agent\.main: order is 3000000000\. Use a whole number from -2147483648 to 2147483647\./,
  );
});
