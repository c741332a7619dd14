import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import type { Template, Workspace, WorkspaceBuild, WorkspacesResponse } from '@ropewalk/contract';
import {
  createTestTemplate,
  eventually,
  failTaken,
  insertPerson,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { type CompletedJob_WorkspaceBuildSchema, CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { reportBuild } from '../app/context/enqueued-builds.ts';
import { completeJob } from '../app/job/complete.ts';
import { type JoinedDaemon, joinDaemon } from '../rpc/testing/daemons.ts';
import { parseMetrics, sampleOf } from './testing.ts';

const PSK = 'build metrics test key';
let server: TestServer;
before(async () => {
  server = await startTestServer({
    env: {
      CODER_PROMETHEUS_ENABLE: 'true',
      CODER_PROMETHEUS_ADDRESS: '127.0.0.1:0',
      CODER_PROVISIONER_DAEMON_PSK: PSK,
      CODER_WORKSPACE_PREBUILDS_RECONCILIATION_INTERVAL: '200ms',
      CODER_MAX_PENDING_JOBS_PER_USER: '1',
    },
  });
});
after(() => server.stop());

const scrape = async () => parseMetrics(await (await fetch(`${server.metricsUrl}/metrics`)).text());
const counted = async (name: string, labels: Record<string, string>) => sampleOf(await scrape(), name, labels);

const make = (name: string, template: Template, more: object = {}, token = server.adminToken) =>
  server.api<Workspace>('POST', '/users/me/workspaces', { body: { name, template_id: template.id, ...more }, token });

/** Ends the build that waits. */
async function finish(): Promise<void> {
  const own = await takeJob(server);
  const type = { case: 'workspaceBuild' as const, value: { resources: [{ name: 'machine', type: 'vm' }] } };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
}

const preset = (name: string, instances: number) => ({ name, parameters: [], prebuild: { instances } });
const presetOf = async ({ active_version_id: version }: Template) =>
  (await server.api<{ ID: string }[]>('GET', `/templateversions/${version}/presets`)).body[0]!.ID;

const poolBecomes = (template: Template, status: string) =>
  eventually(`a prebuilt workspace that is ${status}`, async () => {
    const path = `/workspaces?q=owner:prebuilds+template:${template.name}`;
    const { workspaces } = (await server.api<WorkspacesResponse>('GET', path)).body;
    return workspaces.some(({ latest_build: build }) => build.status === status);
  });

/** Pools stay as they are. */
const pause = (reconciliation_paused: boolean) =>
  server.api('PUT', '/prebuilds/settings', { body: { reconciliation_paused } });

/** The pools get no more workspaces, and keep what they have. */
async function endPools(): Promise<void> {
  await server.services.sql`UPDATE template_version_presets SET desired_instances = 0`;
  await pause(false);
}

test('counts the requests for builds that this server received by their outcome', async () => {
  const template = await createTestTemplate(server, 'enqueued');
  const builds = (transition: string, status: string, reason = 'initiator') =>
    counted('coderd_workspace_builds_enqueued_total', {
      provisioner_type: 'terraform',
      build_reason: reason,
      transition,
      status,
    });
  try {
    const { body: made } = await make('first', template);
    assert.equal(await builds('start', 'success'), 1);
    // one build of this person waits already
    assert.equal((await make('second', template)).status, 429);
    assert.deepEqual([await builds('start', 'success'), await builds('start', 'failed')], [1, 1]);
    // no valid request: the workspace has a build that waits
    const stop = (reason: string) =>
      server.api<WorkspaceBuild>('POST', `/workspaces/${made.id}/builds`, { body: { transition: 'stop', reason } });
    assert.equal((await stop('dashboard')).status, 409);
    await finish();
    assert.equal((await stop('dashboard')).status, 201);
    assert.deepEqual(
      [await builds('stop', 'success', 'dashboard'), await builds('stop', 'failed', 'dashboard')],
      [1, undefined],
    );
    await finish();
    const pooled = await createTestTemplate(server, 'enqueued-pool', { presets: [preset('Small', 1)] });
    await poolBecomes(pooled, 'pending');
    assert.equal(await builds('start', 'success', 'prebuild'), 1);
    await pause(true);
    await failTaken(server, await takeJob(server), 'not needed');
    // of another server in this process
    const foreign = { provisioner: 'terraform', reason: 'initiator', transition: 'start', begun: true };
    reportBuild({ ...foreign, replicaId: crypto.randomUUID() });
    assert.equal(await builds('start', 'success'), 1);
  } finally {
    await endPools();
  }
});

test('counts claimed prebuilt workspaces that replaced resources', async (t) => {
  const name = 'coderd_prebuilt_workspaces_resource_replacements_total';
  const template = await createTestTemplate(server, 'replaced', { presets: [preset('Small', 1)] });
  const labels = { template_name: 'replaced', preset_name: 'Small', organization_name: 'coder' };
  await poolBecomes(template, 'pending');
  await pause(true);
  t.after(endPools);
  const joined: JoinedDaemon = await joinDaemon(server, 'replaces', { psk: PSK });
  t.after(() => joined.session.close());
  const resourceReplacements = [
    { resource: 'vm.machine', paths: ['name'] },
    { resource: 'vm.disk', paths: ['size', 'zone'] },
  ];
  const build = async (
    value: MessageInitShape<typeof CompletedJob_WorkspaceBuildSchema> = { resourceReplacements },
  ) => {
    const acquire = joined.daemon.acquireJobWithCancel();
    const { jobId } = (await acquire.receive())!;
    acquire.cancel();
    await joined.daemon.completeJob(create(CompletedJobSchema, { jobId, type: { case: 'workspaceBuild', value } }));
  };
  // the build of the pool and a usual build do not count
  await build();
  await poolBecomes(template, 'running');
  const { token } = await insertPerson(server, 'claimer');
  const plain = await createTestTemplate(server, 'never-pooled');
  assert.equal((await make('usual', plain, {}, token)).status, 201);
  await build();
  const claim = { template_version_preset_id: await presetOf(template) };
  const claimed = await make('claimed', template, claim, token);
  assert.equal(claimed.body.latest_build.build_number, 2);
  await build();
  await eventually('the claim is counted', async () => (await counted(name, labels)) === 1);
  assert.equal((await scrape()).get(name)!.samples.length, 1);
  const later = await server.api('POST', `/workspaces/${claimed.body.id}/builds`, {
    body: { transition: 'stop' },
    token,
  });
  assert.equal(later.status, 201);
  await build();
  // a claim without replacements
  await pause(false);
  await poolBecomes(template, 'pending');
  await pause(true);
  await build();
  const next = await make('next', template, claim, token);
  assert.equal(next.body.latest_build.build_number, 2);
  await build({});
  const ended = { template_name: 'replaced', preset_name: 'Small', organization_name: 'coder' };
  await eventually('both claims have ended', async () => {
    return (await counted('coderd_prebuilt_workspace_claim_duration_seconds_count', ended)) === 2;
  });
  assert.equal(await counted(name, labels), 1);
});

test('reports pools whose presets can never build', async () => {
  const required = { name: 'size', type: 'string', mutable: true, defaultValue: '', required: true };
  const presets = [preset('Incomplete', 1)];
  await createTestTemplate(server, 'invalid', { richParameters: [required], presets });
  const labels = { template_name: 'invalid', preset_name: 'Incomplete', organization_name: 'coder' };
  const name = 'coderd_prebuilt_workspaces_preset_validation_failed';
  await eventually('the attempt failed', async () => (await counted(name, labels)) === 1);
  const good = await createTestTemplate(server, 'valid', { presets: [preset('Fine', 1)] });
  await poolBecomes(good, 'pending');
  const fine = { ...labels, template_name: 'valid', preset_name: 'Fine' };
  assert.equal(await counted(name, fine), 0);
  // a build that fails is not invalid
  await failTaken(server, await takeJob(server), 'no machine is free');
  assert.deepEqual([await counted(name, fine), await counted(name, labels)], [0, 1]);
  await server.services.sql`UPDATE templates SET deprecated = 'over' WHERE name = 'invalid'`;
  assert.notEqual(await counted(name, labels), 1);
});
