import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { Workspace, WorkspaceAgent, WorkspaceBuild, WorkspacesResponse } from '@ropewalk/contract';
import { createTestTemplate, eventually, startTestServer, type TestServer, takeJob } from '@ropewalk/testkit';
import { createDrpcClient } from '@ropewalk/wire/drpc';
import {
  Agent,
  Connection_Action,
  Connection_Type,
  CreateSubAgentRequest_DisplayApp,
  Lifecycle_State,
  Timing_Stage,
  Timing_Status,
} from '@ropewalk/wire/proto/agent';
import { type CompletedJob_WorkspaceBuildSchema, CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { byteStream, dialWebSocket } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import { connectedAgent } from '../../authz/proofs.ts';
import { uuidText } from '../../rpc/agent/ids.ts';
import { completeJob } from '../job/complete.ts';
import { TEMPLATES } from '../notification/templates.ts';
import { nextAlert } from './monitoring.ts';
import { createAgentReports } from './reports.ts';

type Resources = NonNullable<MessageInitShape<typeof CompletedJob_WorkspaceBuildSchema>['resources']>;
type AgentInit = NonNullable<Resources[number]['agents']>[number];

const FALLBACK = 'https://help.example.com/agents';
let server: TestServer;
let templateId: string;
before(async () => {
  server = await startTestServer({ env: { CODER_AGENT_FALLBACK_TROUBLESHOOTING_URL: FALLBACK } });
  templateId = (await createTestTemplate(server, 'health')).id;
});
after(() => server.stop());

async function finish(agents: AgentInit[]): Promise<void> {
  const own = await takeJob(server);
  const type = { case: 'workspaceBuild' as const, value: { resources: [{ name: 'machine', type: 'vm', agents }] } };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
}

async function started(name: string, more: object = {}) {
  const { body: workspace } = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name, template_id: templateId },
  });
  const token = crypto.randomUUID();
  const agent = { id: crypto.randomUUID(), name: 'main', operatingSystem: 'linux', architecture: 'amd64', ...more };
  await finish([{ connectionTimeoutSeconds: 120, ...agent, auth: { case: 'token', value: token } } as AgentInit]);
  const { body } = await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${workspace.latest_build.id}`);
  const { id } = body.resources[0]!.agents![0]!;
  const look = async () => (await server.api<WorkspaceAgent>('GET', `/workspaceagents/${id}`)).body;
  return { workspace, token, id, look };
}

/** An agent on the wire. Without `ours` it is upstream's. */
async function connect(token: string, ours = true) {
  const { connection } = await dialWebSocket(`${server.url}/api/v2/workspaceagents/me/rpc?version=2.6`, {
    headers: { Cookie: `coder_session_token=${token}`, ...(ours ? { 'Platform-Capabilities': 'tunnel/1' } : {}) },
  });
  const session = new YamuxSession(byteStream(connection), { role: 'client', keepAlive: false });
  return { session, rpc: createDrpcClient(Agent, () => session.openStream()) };
}

test('announces and explains an agent that has not connected at its deadline', async () => {
  const early = await started('early', { connectionTimeoutSeconds: 600 });
  assert.equal((await early.look()).health.healthy, true, 'one that may still connect is not broken');
  assert.match((await early.look()).health.reason!, /not connected yet, expected since \d{4}-/);

  const changed: { id: string; at: number }[] = [];
  const off = server.services.events.on('workspace_changed', ({ workspace_id: id }) =>
    changed.push({ id, at: Date.now() }),
  );
  const { workspace, look } = await started('late', { connectionTimeoutSeconds: 1 });
  await eventually('its time is over', async () => (await look()).status === 'timeout');
  const deadline = Date.parse(/since ([^\s,]+)/.exec((await look()).health.reason!)![1]!) + 1_000;
  await eventually('that is announced', () => changed.some(({ id, at }) => id === workspace.id && at >= deadline));
  off();
  const late = await look();
  assert.equal(late.health.healthy, false);
  assert.match(late.health.reason!, /never connected since \d{4}-.*more than 1 s ago/);
  assert.equal(late.troubleshooting_url, FALLBACK);
  const { body } = await server.api<Workspace>('GET', `/workspaces/${workspace.id}`);
  assert.deepEqual(body.health, { healthy: false, failing_agents: [late.id] });
  const short = await server.api<WorkspacesResponse>('GET', '/workspaces?q=name:late&include_resources=false');
  const [listed] = short.body.workspaces;
  assert.deepEqual(listed?.health, body.health, 'without resources the health is the same');
  assert.deepEqual(listed?.latest_build.resources, []);
});

test('finds the unhealthy workspaces by their status, whatever the reason', async () => {
  const found = async () => {
    const { body } = await server.api<WorkspacesResponse>('GET', '/workspaces?q=status:unhealthy');
    assert.ok(body.workspaces.every(({ health }) => !health.healthy));
    return body.workspaces.map(({ name }) => name).filter((name) => name.startsWith('sick-'));
  };
  await started('sick-waits');
  const silent = await started('sick-silent', { connectionTimeoutSeconds: 1 });
  await eventually('its time is over', async () => (await silent.look()).status === 'timeout');
  const script = await started('sick-script');
  const { session, rpc } = await connect(script.token);
  await eventually('connected', async () => (await script.look()).status === 'connected');
  assert.deepEqual(await found(), ['sick-silent']);
  const changedAt = timestampFromDate(new Date());
  await rpc.updateLifecycle({ lifecycle: { state: Lifecycle_State.START_ERROR, changedAt } });
  await eventually('the script failed', async () => (await script.look()).lifecycle_state === 'start_error');
  assert.deepEqual(await found(), ['sick-script', 'sick-silent']);
  session.close();

  const stop = await server.api('POST', `/workspaces/${silent.workspace.id}/builds`, { body: { transition: 'stop' } });
  assert.equal(stop.status, 201);
  assert.deepEqual(await found(), ['sick-script'], 'a workspace that stops is not unhealthy');
  await finish([]);
});

test('shows since when and why an agent is lost, and accepts its reports while the workspace stops', async () => {
  const { workspace, token, id, look } = await started('lost', { troubleshootingUrl: 'https://own.example.com' });
  const first = await connect(token);
  await eventually('connected', async () => (await look()).status === 'connected');
  assert.equal((await look()).troubleshooting_url, 'https://own.example.com');
  assert.deepEqual((await look()).health, { healthy: true });
  first.session.close();
  await eventually('disconnected', async () => (await look()).status === 'disconnected');
  assert.match((await look()).health.reason!, /closed its connection at \d{4}-/);
  await server.services
    .sql`UPDATE workspace_agents SET disconnected_at = NULL, last_connected_at = now() - interval '31 seconds' WHERE id = ${id}`;
  assert.match((await look()).health.reason!, /lost its heartbeat at \d{4}-/);

  const second = await connect(token);
  const stop = await server.api('POST', `/workspaces/${workspace.id}/builds`, { body: { transition: 'stop' } });
  assert.equal(stop.status, 201);
  const changedAt = timestampFromDate(new Date());
  await second.rpc.updateLifecycle({ lifecycle: { state: Lifecycle_State.SHUTTING_DOWN, changedAt } });
  await second.rpc.batchCreateLogs({ logSourceId: new Uint8Array(16), logs: [{ output: 'last words' }] });
  await second.rpc.updateLifecycle({ lifecycle: { state: Lifecycle_State.OFF, changedAt } });
  await finish([]);
  // the end of the stop, not the next look
  await eventually('it is cut off', () => second.session.isClosed, 5_000);
  await eventually('disconnected', async () => (await look()).status === 'disconnected');
  assert.match((await look()).health.reason!, /the workspace was stopped at \d{4}-/);
  const logs = await server.api<{ output: string }[]>('GET', `/workspaceagents/${id}/logs`);
  assert.deepEqual(
    logs.body.map(({ output }) => output),
    ['last words'],
  );
});

test('names a failed script of an agent without tunnels with its status', async () => {
  const { token, look } = await started('failed', {
    scripts: [
      { displayName: 'Fine', script: 'true', runOnStart: true },
      { displayName: 'Dotfiles', script: 'exit 7', runOnStart: true },
    ],
  });
  const { session, rpc } = await connect(token, false);
  const { scripts } = await rpc.getManifest({});
  assert.deepEqual(
    scripts.map(({ script }) => script),
    ['true', 'exit 7'],
    "in the template's order",
  );
  await eventually('connected', async () => (await look()).status === 'connected');
  const [start, end] = [timestampFromDate(new Date()), timestampFromDate(new Date())];
  const timing = { scriptId: scripts[1]!.id, start, end, stage: Timing_Stage.START };
  await rpc.scriptCompleted({ timing: { ...timing, exitCode: 7, status: Timing_Status.EXIT_FAILURE } });
  // scheduled scripts do not count for the start
  const cron = { ...timing, end: timestampFromDate(new Date(Date.now() + 500)), stage: Timing_Stage.CRON };
  await rpc.scriptCompleted({ timing: { ...cron, exitCode: 3, status: Timing_Status.EXIT_FAILURE } });
  await rpc.updateLifecycle({ lifecycle: { state: Lifecycle_State.START_ERROR, changedAt: end } });
  assert.deepEqual((await look()).health, {
    healthy: false,
    reason: 'agent\'s start script "Dotfiles" ended with status 7',
  });
  const later = timestampFromDate(new Date(Date.now() + 1_000));
  await rpc.scriptCompleted({ timing: { ...timing, end: later, exitCode: 255, status: Timing_Status.TIMED_OUT } });
  await rpc.updateLifecycle({ lifecycle: { state: Lifecycle_State.START_TIMEOUT, changedAt: end } });
  const slow = (await look()).health;
  assert.match(slow.reason!, /"Dotfiles" did not end in time/);
  assert.equal(slow.healthy, true, 'slow is not broken');
  session.close();
});

test('starts an alert after many high readings, and ends it only after low ones', () => {
  const points = (high: number, of = 20) => Array.from({ length: of }, (_, i) => i < high);
  assert.equal(nextAlert(false, points(3)), false);
  assert.equal(nextAlert(false, points(4)), true);
  assert.equal(nextAlert(true, points(1)), true);
  assert.equal(nextAlert(true, points(0)), false);
  assert.equal(nextAlert(false, []), false);
});

test('measures, judges and shows the resources that a template monitors', async () => {
  const { workspace, token, id, look } = await started('watched', {
    resourcesMonitoring: {
      memory: { enabled: true, threshold: 80 },
      volumes: [
        { path: '/home', enabled: true, threshold: 90 },
        { path: '/off', enabled: false, threshold: 90 },
      ],
    },
  });
  const { session, rpc } = await connect(token);
  await eventually('connected', async () => (await look()).status === 'connected');
  const asked = await rpc.getResourcesMonitoringConfiguration({});
  assert.equal(asked.memory?.enabled, true);
  assert.deepEqual(
    asked.volumes.map(({ path }) => path),
    ['/home'],
  );
  const push = (memory: bigint, home: bigint) =>
    rpc.pushResourcesMonitoringUsage({
      datapoints: Array.from({ length: 20 }, () => ({
        memory: { used: memory, total: 100n },
        volumes: [{ volume: '/home', used: home, total: 100n }],
      })),
    });
  await push(10n, 89n);
  assert.deepEqual((await look()).health, { healthy: true });
  await push(85n, 95n);
  assert.deepEqual((await look()).health, {
    healthy: true,
    reason: 'memory is used by 85 % (threshold 80 %); volume /home is used by 95 % (threshold 90 %)',
  });
  const [row] = await server.services.sql<{ quiet: boolean }[]>`
    SELECT quiet_until > now() + interval '29 minutes' AS quiet FROM workspace_agent_monitors WHERE agent_id = ${id} AND path = ''`;
  assert.equal(row!.quiet, true);
  await push(85n, 10n);
  assert.match((await look()).health.reason!, /^memory is used by 85 %[^;]*$/);
  await push(10n, 10n);
  assert.deepEqual((await look()).health, { healthy: true });
  // usage that goes up and down around the threshold is one message
  await push(85n, 10n);
  assert.match((await look()).health.reason!, /^memory is used by 85 %/);
  const { sql } = server.services;
  const queued = await sql<{ id: string }[]>`SELECT template_id AS id FROM notification_messages
    WHERE ${workspace.id} = ANY (targets) AND template_id IN (${TEMPLATES.outOfMemory.id}, ${TEMPLATES.outOfDisk.id})`;
  assert.equal(queued.length, 2);
  const texts = await eventually('the messages', async () => {
    const sent = await sql<{ title: string; content: string }[]>`SELECT title, content FROM inbox_notifications
      WHERE ${workspace.id} = ANY (targets) AND title LIKE '%low on%' ORDER BY title`;
    return sent.length === 2 && sent.map(({ title, content }) => `${title}: ${content}`);
  });
  assert.match(texts[0]!, /^Workspace 'watched' is low on disk space: .*\/home.*90 %/);
  assert.match(texts[1]!, /^Workspace 'watched' is low on memory: .*80 %/);
  session.close();
});

test('stores connections and statuses of apps', async () => {
  const { workspace, token } = await started('used', { apps: [{ slug: 'helper', url: 'http://localhost:1' }] });
  const { session, rpc } = await connect(token);
  const connectionId = Buffer.alloc(16, 7);
  const connection = { id: connectionId, type: Connection_Type.SSH, ip: '127.0.0.1', statusCode: 0 };
  await rpc.reportConnection({ connection: { ...connection, action: Connection_Action.CONNECT } });
  const end = { action: Connection_Action.DISCONNECT, statusCode: 3, reason: 'gone' };
  await rpc.reportConnection({ connection: { ...connection, ...end } });
  const rows = await server.services.sql`SELECT type, code, disconnect_reason, disconnect_time IS NOT NULL AS ended
    FROM connection_logs WHERE workspace_id = ${workspace.id}`;
  assert.deepEqual([...rows], [{ type: 'ssh', code: 3, disconnect_reason: 'gone', ended: true }]);

  // 2100, and later than a Date can be
  for (const [place, seconds] of [4_102_444_800n, 9_000_000_000_000n].entries()) {
    const id = Buffer.alloc(16, 8 + place);
    const timestamp = { seconds, nanos: 0 };
    await rpc.reportConnection({ connection: { ...connection, id, timestamp, action: Connection_Action.CONNECT } });
    await rpc.reportConnection({ connection: { ...connection, id, timestamp, ...end } });
  }
  const [stored] = await server.services.sql`SELECT count(*)::int AS count,
      bool_and(connect_time <= now() AND disconnect_time <= now()) AS past
    FROM connection_logs WHERE workspace_id = ${workspace.id}`;
  assert.deepEqual(stored, { count: 3, past: true }, 'a time in the future is stored as now');

  const patch = (body: object) => server.api('PATCH', '/workspaceagents/me/app-status', { token, body });
  assert.equal((await patch({ app_slug: 'helper', state: 'working', message: 'at it' })).status, 200);
  assert.equal((await patch({ app_slug: 'helper', state: 'complete', message: 'done', uri: 'https://x' })).status, 200);
  assert.equal((await patch({ app_slug: 'nobody', state: 'idle' })).status, 404);
  assert.equal((await patch({ app_slug: 'helper', state: 'idle', message: 'x'.repeat(161) })).status, 400);
  assert.equal((await patch({ app_slug: 'helper', state: 'asleep' })).status, 400);
  const { body } = await server.api<Workspace>('GET', `/workspaces/${workspace.id}`);
  assert.equal(body.latest_app_status!.message, 'done');
  assert.deepEqual(
    body.latest_build.resources[0]!.agents![0]!.apps[0]!.statuses!.map(({ state }) => state),
    ['complete', 'working'],
  );
  const many = Array.from({ length: 17 }, (_, n) => `step ${n}`);
  await Promise.all(many.map((message) => patch({ app_slug: 'helper', state: 'working', message })));
  const after = await server.api<Workspace>('GET', `/workspaces/${workspace.id}`);
  const app = after.body.latest_build.resources[0]!.agents![0]!.apps[0]!;
  assert.deepEqual(
    app.statuses!.map(({ message }) => message).sort(),
    [...many, 'at it', 'done'].sort(),
    'none is lost of those that come at the same time',
  );
  assert.ok(app.statuses!.every(({ app_id }) => app_id === app.id));
  for (let n = 0; n < 5; n++) await patch({ app_slug: 'helper', state: 'idle', message: 'last' });
  const full = await server.api<Workspace>('GET', `/workspaces/${workspace.id}`);
  assert.equal(full.body.latest_build.resources[0]!.agents![0]!.apps[0]!.statuses!.length, 20);

  session.close();
});

test('writes statistics of all agents together, and none of idle agents', async () => {
  const busy = await started('busy');
  const idle = await started('idle');
  const { sql } = server.services;
  let statements = 0;
  const counting = new Proxy(sql, {
    apply(target, self, args: Parameters<typeof sql>) {
      // the parts of a statement begin with other words
      if (Array.isArray(args[0]) && /^\s*(WITH|INSERT|UPDATE|DELETE)\b/.test(args[0][0])) statements++;
      return Reflect.apply(target, self, args);
    },
  });
  const reports = createAgentReports({ ...server.services, sql: counting });
  const none = {
    rxBytes: 0,
    txBytes: 0,
    rxPackets: 0,
    txPackets: 0,
    vscode: 0,
    jetbrains: 0,
    reconnectingPty: 0,
    ssh: 0,
    connections: 0,
    protocols: {},
    latencyMs: -1,
  };
  // a session extends the deadline as far as the template allows
  await sql`UPDATE templates SET activity_bump_ms = 3600000 WHERE id = ${templateId}`;
  for (const { workspace } of [busy, idle])
    await sql`UPDATE workspace_builds SET deadline = now() + interval '10 minutes' WHERE workspace_id = ${workspace.id}`;
  const of = ({ id, workspace }: typeof busy) => connectedAgent({ id, workspace_id: workspace.id });
  reports.stats(of(busy), { ...none, ssh: 2, rxBytes: 10, protocols: { TCP: 2 }, latencyMs: 1.5 });
  reports.stats(of(busy), { ...none, ssh: 1, rxBytes: 5, protocols: { TCP: 1 }, latencyMs: 2.5 });
  reports.stats(of(idle), none);
  // the agent is gone meanwhile, and the others are written all the same
  reports.stats(connectedAgent({ id: crypto.randomUUID(), workspace_id: crypto.randomUUID() }), { ...none, ssh: 1 });
  await reports.close();
  assert.equal(statements, 1);
  const stats = await sql`SELECT agent_id, session_count_ssh AS ssh, rx_bytes AS rx, connections_by_proto AS protocols,
    connection_median_latency_ms AS latency FROM workspace_agent_stats WHERE agent_id IN (${busy.id}, ${idle.id})`;
  assert.deepEqual([...stats], [{ agent_id: busy.id, ssh: 1, rx: 15, protocols: { TCP: 1 }, latency: 2.5 }]);
  const lastUsed = async ({ workspace }: typeof busy) =>
    Date.parse((await server.api<Workspace>('GET', `/workspaces/${workspace.id}`)).body.last_used_at);
  assert.ok((await lastUsed(busy)) > Date.now() - 60_000);
  const deadlines = await sql<{ mine: boolean; far: boolean }[]>`
    SELECT workspace_id = ${busy.workspace.id} AS mine, deadline > now() + interval '59 minutes' AS far
    FROM workspace_builds WHERE workspace_id IN (${busy.workspace.id}, ${idle.workspace.id}) ORDER BY mine`;
  assert.deepEqual(
    [...deadlines],
    [
      { mine: false, far: false },
      { mine: true, far: true },
    ],
  );
  assert.ok(!((await lastUsed(idle)) > (await lastUsed(busy))));
});

test('lets an agent create sub-agents, which act for the workspace until they are deleted', async () => {
  const { workspace, token, id } = await started('nested');
  const { session, rpc } = await connect(token);
  const made = await rpc.createSubAgent({
    name: 'container',
    directory: '/src',
    architecture: 'amd64',
    operatingSystem: 'linux',
    displayApps: [CreateSubAgentRequest_DisplayApp.WEB_TERMINAL],
    apps: [{ slug: 'web', url: 'http://localhost:3000' }, { slug: 'Not a slug' }, { slug: 'web' }],
  });
  assert.deepEqual(
    made.appCreationErrors.map(({ index, field }) => [index, field]),
    [
      [1, 'slug'],
      [2, 'slug'],
    ],
  );
  const text = (bytes: Uint8Array) =>
    Buffer.from(bytes)
      .toString('hex')
      .replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
  const below = await connect(text(made.agent!.authToken));
  const manifest = await below.rpc.getManifest({});
  assert.equal(text(manifest.parentId!), id);
  assert.equal(manifest.directory, '/src');
  assert.match(manifest.apps[0]!.slug, /^[0-9a-v]{8}-web$/);
  await assert.rejects(below.rpc.createSubAgent({ name: 'deeper' }), /cannot have sub-agents/);
  await assert.rejects(rpc.createSubAgent({ name: 'Container' }), /already has an agent/);
  await assert.rejects(rpc.createSubAgent({ name: 'not a name' }), /Invalid agent name/);
  const { body } = await server.api<Workspace>('GET', `/workspaces/${workspace.id}`);
  const shown = body.latest_build.resources[0]!.agents!;
  assert.deepEqual(shown.map(({ name, parent_id: parent }) => [name, parent]).sort(), [
    ['container', id],
    ['main', null],
  ]);
  assert.deepEqual(
    (await rpc.listSubAgents({})).agents.map(({ name }) => name),
    ['container'],
  );
  await assert.rejects(rpc.deleteSubAgent({ id: Buffer.alloc(16, 1) }), /no sub-agent with the ID/);
  await rpc.deleteSubAgent({ id: made.agent!.id });
  await below.session.closed;
  assert.deepEqual((await rpc.listSubAgents({})).agents, []);
  session.close();
});

test('creates the agent of a dev container that the template gives apps, scripts and variables', async () => {
  const { token, id } = await started('prepared', {
    devcontainers: [
      { name: 'plain', workspaceFolder: '/plain' },
      {
        name: 'my_repo',
        workspaceFolder: '/repo',
        subagentId: crypto.randomUUID(),
        apps: [{ id: crypto.randomUUID(), slug: 'web', url: 'http://localhost:3000' }],
        scripts: [{ displayName: 'Setup', script: 'true', runOnStart: true }],
        envs: [
          { name: 'PATH', value: '/a' },
          { name: 'PATH', value: '/b', mergeStrategy: 'append' },
        ],
      },
    ],
  });
  const { session, rpc } = await connect(token);
  const containers = (await rpc.getManifest({})).devcontainers;
  assert.deepEqual(
    containers.map(({ name, subagentId }) => [name, subagentId !== undefined]),
    [
      ['my_repo', true],
      ['plain', false],
    ],
  );
  const { subagentId } = containers[0]!;
  const request = { id: subagentId!, name: 'other', directory: '/workspaces/repo', apps: [{ slug: 'ignored' }] };
  const displayApps = [CreateSubAgentRequest_DisplayApp.WEB_TERMINAL];
  const { agent } = await rpc.createSubAgent({ ...request, displayApps });
  assert.deepEqual([agent!.name, agent!.id], ['my-repo', subagentId]);
  const inside = await connect(uuidText(agent!.authToken));
  const manifest = await inside.rpc.getManifest({});
  assert.deepEqual(
    [manifest.directory, manifest.apps.map(({ slug }) => slug), manifest.scripts.map(({ displayName }) => displayName)],
    ['/workspaces/repo', ['web'], ['Setup']],
  );
  assert.deepEqual(manifest.environmentVariables, { PATH: '/a:/b' });
  assert.equal(uuidText(manifest.parentId!), id);

  // an agent that starts again deletes the sub-agents that it made before
  await rpc.deleteSubAgent({ id: subagentId! });
  assert.deepEqual(
    (await rpc.listSubAgents({})).agents.map(({ name }) => name),
    ['my-repo'],
  );
  const stranger = await connect((await started('stranger')).token);
  await assert.rejects(stranger.rpc.createSubAgent({ id: subagentId!, name: 'x' }), /no sub-agent with the ID/);
  const { agent: own } = await rpc.createSubAgent({ name: 'own' });
  await assert.rejects(rpc.createSubAgent({ id: own!.id, name: 'own' }), /no sub-agent with the ID/);
  for (const one of [session, inside.session, stranger.session]) one.close();
});

test('gives each name to one agent of a build only, also if two parents ask at the same moment', async () => {
  const { sql } = server.services;
  const { workspace, token } = await started('twins');
  const second = crypto.randomUUID();
  // another machine of the same build, with its own agent
  await sql`WITH machine AS (
      INSERT INTO workspace_resources (id, job_id, transition, type, name)
      SELECT gen_random_uuid(), job_id, 'start', 'vm', 'other' FROM workspace_builds WHERE id = ${workspace.latest_build.id} RETURNING id)
    INSERT INTO workspace_agents (id, resource_id, name, auth_token, architecture, operating_system)
    SELECT gen_random_uuid(), id, 'second', ${second}, 'amd64', 'linux' FROM machine`;
  const parents = [await connect(token), await connect(second)];
  for (let i = 0; i < 5; i++) {
    const results = await Promise.allSettled(parents.map(({ rpc }) => rpc.createSubAgent({ name: `container-${i}` })));
    const errors = results.flatMap((one) => (one.status === 'rejected' ? [String(one.reason)] : []));
    assert.equal(errors.length, 1);
    assert.match(errors[0]!, /already has an agent "container-/);
  }
  await assert.rejects(parents[0]!.rpc.createSubAgent({ name: 'Second' }), /already has an agent/);
  for (const { session } of parents) session.close();
});
