import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createPerson, eventually, insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { startTestWorkspace, type TestWorkspace } from '@ropewalk/testkit/workspace';
import { Registry } from 'prom-client';
import { TEMPLATES } from '../app/notification/templates.ts';
import { statementName } from '../db/query-times.ts';
import { createAgentStats, statsLabels } from './agent-stats.ts';
import { parseMetrics, sampleOf } from './testing.ts';

let server: TestServer;
let workspace: TestWorkspace;
before(async () => {
  server = await startTestServer({
    env: {
      CODER_PROMETHEUS_ENABLE: 'true',
      CODER_PROMETHEUS_ADDRESS: '127.0.0.1:0',
      CODER_PROMETHEUS_COLLECT_AGENT_STATS: 'true',
      CODER_PROMETHEUS_AGGREGATE_AGENT_STATS_BY: 'username,template_name',
      CODER_PROMETHEUS_COLLECT_DB_METRICS: 'true',
    },
  });
  const apps = [{ id: crypto.randomUUID(), slug: 'web', displayName: 'Web', url: 'http://localhost:1' }];
  workspace = await startTestWorkspace(server, 'box', { agent: { apps: apps as never } });
});
after(async () => {
  await workspace.stop();
  await server.stop();
});

const scrape = async () => parseMetrics(await (await fetch(`${server.metricsUrl}/metrics`)).text());
const WORKSPACE = { username: 'admin', workspace_name: 'box' };

test('reports the agents, apps and latest builds of workspaces', async () => {
  const template = {
    template_name: 'of-box',
    template_version: workspace.workspace.latest_build.template_version_name,
  };
  const found = await eventually('the agent is ready', async () => {
    const families = await scrape();
    const labels = {
      ...WORKSPACE,
      agent_name: 'main',
      lifecycle_state: 'ready',
      status: 'connected',
      tailnet_node: 'unknown',
    };
    return sampleOf(families, 'coderd_agents_connections', labels) === 1 && families;
  });
  assert.equal(sampleOf(found, 'coderd_agents_up', { ...WORKSPACE, ...template }), 1);
  const app = { ...WORKSPACE, agent_name: 'main', app_name: 'web', health: 'disabled' };
  assert.equal(sampleOf(found, 'coderd_agents_apps', app), 1);
  const build = { ...template, status: 'succeeded', workspace_owner: 'admin', workspace_transition: 'start' };
  assert.equal(sampleOf(found, 'coderd_workspace_latest_build_status', build), 1);

  const { sql, events } = server.services;
  const { id: workspace_id, owner_id } = workspace.workspace;
  const relay = { ...WORKSPACE, agent_name: 'main', derp_region: 'Coder Embedded Relay', preferred: 'true' };
  const seconds = await eventually('the round trip to the agent', async () => {
    await events.publish(sql, 'workspace_changed', { workspace_id, owner_id, agents_outdated: true });
    return sampleOf(await scrape(), 'coderd_agents_connection_latencies_seconds', relay);
  });
  assert.ok(seconds > 0 && seconds < 10, String(seconds));
  await sql`UPDATE workspace_agents SET disconnected_at = now() WHERE id = ${workspace.agentId}`;
  const gone = await scrape();
  assert.equal(sampleOf(gone, 'coderd_agents_up', { ...WORKSPACE, ...template }), 0);
  assert.deepEqual(gone.get('coderd_agents_connection_latencies_seconds')!.samples, []);
  await sql`UPDATE workspaces SET deleted = true WHERE id = ${workspace.workspace.id}`;
  assert.deepEqual((await scrape()).get('coderd_agents_up')!.samples, []);
  await sql`UPDATE workspaces SET deleted = false WHERE id = ${workspace.workspace.id}`;
});

test('sums statistics of agents by the labels of the option', async () => {
  const { sql } = server.services;
  const report = (bytes: number, ssh: number, latency: number) => sql`
    INSERT INTO workspace_agent_stats (agent_id, workspace_id, rx_bytes, tx_bytes, session_count_ssh, connection_count,
      connection_median_latency_ms)
    VALUES (${workspace.agentId}, ${workspace.workspace.id}, ${bytes}, ${2 * bytes}, ${ssh}, ${ssh + 1}, ${latency})`;
  const labels = { username: 'admin', template_name: 'of-box' };
  await report(1_000_000_000, 5, -1);
  const before = sampleOf(await scrape(), 'coderd_agentstats_rx_bytes', labels)!;
  const registry = new Registry();
  await createAgentStats(registry, ['username']).read(sql);
  const fresh = parseMetrics(await registry.metrics());
  assert.equal(sampleOf(fresh, 'coderd_agentstats_rx_bytes', { username: 'admin' }), 0, 'reported before the start');
  await report(100, 3, 10);
  await report(10, 2, 20);
  const first = await scrape();
  const value = (families: typeof first, name: string) => sampleOf(families, `coderd_agentstats_${name}`, labels);
  assert.equal(value(first, 'session_count_ssh'), 2);
  assert.equal(value(first, 'connection_count'), 3);
  assert.equal(value(first, 'connection_median_latency_seconds'), 0.02);
  // the agent of the workspace may report, too
  const received = value(first, 'rx_bytes')! - before;
  assert.ok(received >= 110 && received < 1_000_000, String(received));
  assert.ok(value(first, 'tx_bytes')! >= 2_000_000_220);
  assert.throws(() => statsLabels(['username', 'color']), /label "color": use agent_name, template_name/);
});

test('times statements by verb and table', async () => {
  await server.api('GET', '/workspaces');
  await server.api('GET', '/groups');
  const found = await scrape();
  const name = 'coderd_db_query_latencies_seconds';
  const samples = found.get(name)!.samples.filter((sample) => sample.name === `${name}_count`);
  const statements = new Set(samples.map(({ labels }) => labels['query']));
  assert.ok(!statements.has('where'), 'a statement that begins with a fragment has its name');
  for (const statement of ['select workspaces', 'insert audit_logs', 'begin'])
    assert.ok(statements.has(statement), `${statement} in ${[...statements]}`);
  assert.ok(statements.size < 200);
  for (const [text, expected] of [
    ['SELECT 1', 'select'],
    ['\n  WITH x AS (SELECT * FROM Users u) SELECT', 'with users'],
    ['DELETE FROM only api_keys WHERE', 'delete api_keys'],
    ['', 'other'],
  ] as const)
    assert.equal(statementName(text), expected);
});

test('counts attempts to send notifications', async () => {
  await insertPerson(server, 'other-admin', ['owner']);
  await createPerson(server, 'newcomer');
  const labels = { method: 'inbox', notification_template_id: TEMPLATES.userCreated.id, result: 'success' };
  await eventually('the message is in an inbox', async () => {
    return sampleOf(await scrape(), 'coderd_notifications_dispatch_attempts_total', labels) === 1;
  });
  const found = await scrape();
  const { method, notification_template_id } = labels;
  assert.equal(sampleOf(found, 'coderd_notifications_inflight_dispatches', { method, notification_template_id }), 0);
  assert.ok(sampleOf(found, 'coderd_notifications_queued_seconds_count', { method })! >= 1);
  assert.ok(sampleOf(found, 'coderd_notifications_dispatcher_send_seconds_count', { method })! >= 1);
  assert.equal(sampleOf(found, 'coderd_notifications_retry_count', { method, notification_template_id }), undefined);
});
