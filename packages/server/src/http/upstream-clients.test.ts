import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type {
  DeploymentConfig,
  HealthcheckReport,
  NotificationMethodsResponse,
  ProvisionerJobLog,
  Response,
  Role,
  Template,
  User,
  UserAppearanceSettings,
  Workspace,
} from '@ropewalk/contract';
import {
  createTestTemplate,
  failTaken,
  finishImport,
  insertPerson,
  pendingVersion,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { UpdateJobRequestSchema } from '@ropewalk/wire/proto/provisionerd';
import { dialWebSocket } from '@ropewalk/wire/websocket';
import { createLogKeeper } from '../app/job/log-keeper.ts';
import { updateJob } from '../app/job/update.ts';
import { finishBuild, makeAgents } from '../rpc/testing/agents.ts';

// What upstream's programs send and read, where upstream's API document says something else.

let server: TestServer;
let templateId: string;
before(async () => {
  server = await startTestServer();
  templateId = (await createTestTemplate(server, 'base')).id;
});
after(() => server.stop());

async function startedWorkspace(name: string): Promise<Workspace> {
  const made = await server.api<Workspace>('POST', '/users/me/workspaces', { body: { name, template_id: templateId } });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  await finishBuild(server, [crypto.randomUUID()]);
  return made.body;
}

test('a workspace that nothing stops cannot be extended, whatever the request says', async () => {
  const workspace = await startedWorkspace('manual');
  const extend = (body: object) => server.api<Response>('PUT', `/workspaces/${workspace.id}/extend`, { body });
  const later = new Date(Date.now() + 3_600_000).toISOString();
  for (const body of [{}, { deadline: '0001-01-01T00:00:00Z' }, { deadline: later }]) {
    const { status, body: answer } = await extend(body);
    assert.equal(status, 409, JSON.stringify(body));
    assert.match(answer.message, /^Workspace shutdown is manual/);
  }
  await server.services.sql`UPDATE workspace_builds SET deadline = now() WHERE workspace_id = ${workspace.id}`;
  const missing = await extend({});
  assert.equal(missing.status, 400);
  assert.deepEqual(missing.body.validations, [{ field: 'deadline', detail: 'is required' }]);
  assert.equal((await extend({ deadline: later })).status, 200);
});

test('accounts for GitHub can be prepared before its sign-in is configured', async () => {
  const create = (login_type: string) =>
    server.api<User>('POST', '/users', {
      body: { username: `of-${login_type}`, email: `${login_type}@example.com`, login_type },
    });
  const github = await create('github');
  assert.equal(github.status, 201, JSON.stringify(github.body));
  assert.equal(github.body.login_type, 'github');
  assert.equal((await create('oidc')).status, 400);
  assert.equal((await create('token')).status, 400);
});

test('a log is sent whole to a client that asks for the lines after -1', async () => {
  const version = await pendingVersion(server);
  const own = await takeJob(server);
  const line = { level: 2, source: 1, stage: 'Setting up', output: 'first line', createdAt: BigInt(Date.now()) };
  await updateJob(
    server.services,
    own,
    create(UpdateJobRequestSchema, { jobId: own.jobId, logs: [line] }),
    createLogKeeper(),
  );
  await finishImport(server, own);
  const dryRun = await server.api<{ id: string }>('POST', `/templateversions/${version.id}/dry-run`, { body: {} });
  assert.equal(dryRun.status, 201, JSON.stringify(dryRun.body));
  await failTaken(server, await takeJob(server), 'not planned');
  const template = await server.api<Template>('GET', `/templates/${templateId}`);
  const { workspace, agents } = await makeAgents(server, template.body, 'logged');
  for (const path of [
    `/templateversions/${version.id}/logs`,
    `/templateversions/${version.id}/dry-run/${dryRun.body.id}/logs`,
    `/workspacebuilds/${workspace.latest_build.id}/logs`,
    `/workspaceagents/${agents[0]!.id}/logs`,
  ]) {
    const whole = await server.api<{ id: number }[]>('GET', path);
    const same = await server.api<{ id: number }[]>('GET', `${path}?after=-1`);
    assert.equal(same.status, 200, `${path}: ${JSON.stringify(same.body)}`);
    assert.deepEqual(same.body, whole.body);
    const none = await server.api<{ id: number }[]>('GET', `${path}?before=-1`);
    assert.deepEqual([none.status, none.body], [200, []]);
  }
  const { connection } = await dialWebSocket(
    `${server.url}/api/v2/templateversions/${version.id}/logs?follow=true&after=-1`,
    { headers: { 'Coder-Session-Token': server.adminToken } },
  );
  const outputs: string[] = [];
  connection.on('text', (text: string) => outputs.push((JSON.parse(text) as ProvisionerJobLog).output));
  await connection.closed;
  assert.deepEqual(outputs, ['first line']);
});

test('offers the methods that upstream’s dashboard knows, and takes permissions without negate', async () => {
  const methods = (await server.api<NotificationMethodsResponse>('GET', '/notifications/dispatch-methods')).body;
  assert.deepEqual(methods.available, ['smtp', 'webhook']);
  const role = { name: 'watcher', organization_permissions: [{ resource_type: 'audit_log', action: 'read' }] };
  const made = await server.api<Role>('POST', '/organizations/default/members/roles', { body: role });
  assert.equal(made.status, 200, JSON.stringify(made.body));
  assert.deepEqual(made.body.organization_permissions, [{ ...role.organization_permissions[0], negate: false }]);
});

test('the health report has no null where upstream’s dashboard reads a list', async () => {
  const { derp, provisioner_daemons, workspace_proxy } = (await server.api<HealthcheckReport>('GET', '/debug/health'))
    .body;
  assert.deepEqual([derp.netcheck_logs, Object.keys(derp.regions), derp.warnings], [[], ['999'], []]);
  const [node] = derp.regions['999']!.node_reports;
  assert.deepEqual([derp.healthy, node!.can_exchange_messages, node!.warnings], [true, true, []], node!.error);
  assert.ok(Array.isArray(provisioner_daemons.items) && Array.isArray(workspace_proxy.workspace_proxies.regions));
});

test('reports to the dashboard of 2.36 whose workspaces can be shared, and that there is a template builder', async () => {
  const workspace = await startedWorkspace('unshared');
  const { token } = await insertPerson(server, 'wanda');
  const settings = `/organizations/${workspace.organization_id}/settings/workspace-sharing`;
  for (const as of [{}, { token }]) {
    assert.deepEqual((await server.api('GET', settings, as)).body, {
      sharing_globally_disabled: false,
      sharing_disabled: false,
      shareable_workspace_owners: 'everyone',
    });
  }
  assert.deepEqual((await server.api('GET', `/workspaces/${workspace.id}/acl`)).body, { users: [], group: [] });
  assert.equal((await server.api('GET', `/workspaces/${workspace.id}/acl`, { token })).status, 404);
  const { config } = (await server.api<DeploymentConfig>('GET', '/deployment/config')).body;
  assert.deepEqual([config.template_builder?.disabled, config.disable_workspace_sharing], [false, false]);
  // it divides the time by an hour
  assert.equal((await server.api<Template>('GET', `/templates/${templateId}`)).body.time_til_autostop_notify_ms, 0);
});

test('reminds people before a stop, at least a minute', async () => {
  const patch = (body: object) => server.api<Template & Response>('PATCH', `/templates/${templateId}`, { body });
  const hour = await patch({ time_til_autostop_notify_ms: 3_600_000 });
  assert.deepEqual([hour.status, hour.body.time_til_autostop_notify_ms], [200, 3_600_000]);
  assert.equal((await patch({ time_til_autostop_notify_ms: 0, display_name: 'Base' })).status, 200);
  const refused = await patch({ time_til_autostop_notify_ms: 59_999 });
  assert.deepEqual(
    [refused.status, refused.body.validations?.map(({ field }) => field)],
    [400, ['time_til_autostop_notify_ms']],
  );
});

test('keeps the themes that follow the system', async () => {
  const { token } = await insertPerson(server, 'theo');
  const put = (body: object) =>
    server.api<UserAppearanceSettings & Response>('PUT', '/users/me/appearance', {
      token,
      body: { terminal_font: 'geist-mono', ...body },
    });
  const kept = async () => (await server.api<UserAppearanceSettings>('GET', '/users/me/appearance', { token })).body;
  const follows = { theme_mode: 'sync', theme_light: 'light-tritan', theme_dark: 'dark' };
  const saved = await put({ theme_preference: 'dark', ...follows });
  assert.equal(saved.status, 200, JSON.stringify(saved.body));
  assert.deepEqual(saved.body, { theme_preference: 'dark', terminal_font: 'geist-mono', ...follows });
  assert.deepEqual(await kept(), saved.body);
  // older clients know only one theme
  await put({ theme_preference: 'light' });
  assert.deepEqual(await kept(), { ...saved.body, theme_preference: 'light' });
  await put({ theme_preference: 'auto' });
  assert.deepEqual([(await kept()).theme_mode, (await kept()).theme_light], ['', 'light-tritan']);
  // a theme that is left out stays
  const single = await put({
    theme_preference: 'dark-tritan',
    theme_mode: 'single',
    theme_dark: 'dark-tritan',
    theme_light: '',
  });
  assert.deepEqual(single.body, {
    theme_preference: 'dark-tritan',
    terminal_font: 'geist-mono',
    theme_mode: 'single',
    theme_light: 'light-tritan',
    theme_dark: 'dark-tritan',
  });
  const without = await put({ theme_preference: 'dark', theme_mode: 'sync', theme_dark: 'dark' });
  assert.deepEqual([without.status, without.body.validations?.[0]?.field], [400, 'theme_light']);
  assert.equal(
    (await put({ theme_preference: 'dark', theme_mode: 'sync', theme_light: 'x', theme_dark: 'dark' })).status,
    400,
  );
  // other preferences do not contain them
  const preferences = await server.api('GET', '/users/me/preferences', { token });
  assert.equal(
    Object.keys(preferences.body as object).some((key) => key.startsWith('theme')),
    false,
  );
});
