import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { Group, Organization, Workspace, WorkspaceBuild, WorkspaceQuota } from '@ropewalk/contract';
import {
  createTestTemplate,
  failTaken,
  insertPerson,
  startTestServer,
  type TakenJob,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { commitQuota } from '../job/commit-quota.ts';
import { completeJob } from '../job/complete.ts';

let server: TestServer;
let home: Organization;
let templateId: string;
let devs: Group;
before(async () => {
  server = await startTestServer();
  home = (await server.api<Organization>('GET', '/organizations/default')).body;
  templateId = (await createTestTemplate(server, 'costly')).id;
  devs = (await server.api<Group>('POST', '/organizations/default/groups', { body: { name: 'devs' } })).body;
});
after(() => server.stop());

type Person = Awaited<ReturnType<typeof insertPerson>>;

const allow = async (group: { id: string }, quota_allowance: number, add_users: string[] = []) => {
  const { status } = await server.api('PATCH', `/groups/${group.id}`, { body: { quota_allowance, add_users } });
  assert.equal(status, 200);
};
const quota = async ({ id, token }: Person) =>
  (await server.api<WorkspaceQuota>('GET', `/organizations/default/members/${id}/workspace-quota`, { token })).body;

/** Creates a workspace and takes its build, as a daemon does. */
async function begin({ token }: Person, name: string): Promise<{ workspace: Workspace; job: TakenJob }> {
  const { status, body } = await server.api<Workspace>('POST', '/users/me/workspaces', {
    token,
    body: { name, template_id: templateId },
  });
  assert.equal(status, 201, JSON.stringify(body));
  return { workspace: body, job: await takeJob(server) };
}
async function build({ token }: Person, workspace: Workspace, transition: string): Promise<TakenJob> {
  const { status } = await server.api<WorkspaceBuild>('POST', `/workspaces/${workspace.id}/builds`, {
    token,
    body: { transition },
  });
  assert.equal(status, 201);
  return takeJob(server);
}
const commit = (job: TakenJob, cost: number) => commitQuota(server.services, job, cost);
async function complete(job: TakenJob, dailyCost: number): Promise<void> {
  const value = { resources: [{ name: 'machine', type: 'vm', dailyCost }] };
  await completeJob(
    server.services,
    job,
    create(CompletedJobSchema, { jobId: job.jobId, type: { case: 'workspaceBuild' as const, value } }),
  );
}

test('limits nobody while no group has an allowance', async () => {
  const ann = await insertPerson(server, 'ann');
  const { job } = await begin(ann, 'free');
  assert.deepEqual(await commit(job, 100), { ok: true, budget: -1, creditsConsumed: 0 });
  await complete(job, 100);
  assert.deepEqual(await quota(ann), { budget: -1, credits_consumed: 100 });
});

test('adds the allowances of a person’s groups, and lets the costs of all workspaces reach their sum', async () => {
  const bob = await insertPerson(server, 'bob');
  await allow(home, 4);
  await allow(devs, 6, [bob.id]);
  assert.deepEqual(await quota(bob), { budget: 10, credits_consumed: 0 });
  const one = await begin(bob, 'one');
  assert.deepEqual(await commit(one.job, 7), { ok: true, budget: 10, creditsConsumed: 0 });
  // a daemon that lost the answer asks again
  assert.deepEqual(await commit(one.job, 7), { ok: true, budget: 10, creditsConsumed: 0 });
  await complete(one.job, 7);
  const two = await begin(bob, 'two');
  assert.deepEqual(await commit(two.job, 4), { ok: false, budget: 10, creditsConsumed: 7 });
  assert.deepEqual(await quota(bob), { budget: 10, credits_consumed: 7 });
  assert.equal((await commit(two.job, 3)).ok, true);
  await complete(two.job, 3);
  // deleting one gives its credits back
  await complete(await build(bob, two.workspace, 'delete'), 0);
  assert.equal((await quota(bob)).credits_consumed, 7);
  const stranger = await insertPerson(server, 'stranger');
  const path = `/organizations/default/members/${bob.id}/workspace-quota`;
  assert.equal((await server.api('GET', path, { token: stranger.token })).status, 404);
  assert.deepEqual((await server.api('GET', '/workspace-quota/me', { token: bob.token })).body, await quota(bob));
});

test('over budget, stops a workspace and makes it cheaper, but does not start it again', async () => {
  const cat = await insertPerson(server, 'cat');
  await allow(devs, 6, [cat.id]);
  const { workspace, job } = await begin(cat, 'mine');
  assert.equal((await commit(job, 10)).ok, true);
  await complete(job, 10);
  await allow(devs, 1);
  const stop = await build(cat, workspace, 'stop');
  assert.deepEqual(await commit(stop, 6), { ok: true, budget: 5, creditsConsumed: 0 });
  await complete(stop, 6);
  const start = await build(cat, workspace, 'start');
  assert.equal((await commit(start, 10)).ok, false);
  await failTaken(server, start, 'insufficient quota');
  // the resources of the stopped workspace still cost
  assert.deepEqual(await quota(cat), { budget: 5, credits_consumed: 6 });
});

test('two builds at the same time cannot spend the same credits', async () => {
  const dan = await insertPerson(server, 'dan');
  await allow(home, 10);
  const jobs = [];
  for (const name of ['a', 'b', 'c', 'd']) jobs.push((await begin(dan, name)).job);
  const verdicts = await Promise.all(jobs.map((job) => commit(job, 4)));
  assert.equal(verdicts.filter(({ ok }) => ok).length, 2, JSON.stringify(verdicts));
  assert.equal((await quota(dan)).credits_consumed, 8);
});

test('a cost below zero gives no credits', async () => {
  const eve = await insertPerson(server, 'eve');
  const { job } = await begin(eve, 'refund');
  assert.equal((await commit(job, -1_000)).ok, true);
  await complete(job, -1_000);
  assert.deepEqual(await quota(eve), { budget: 10, credits_consumed: 0 });
});
