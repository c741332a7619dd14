import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import type { Workspace } from '@ropewalk/contract';
import { systemClock } from '@ropewalk/kit';
import { createTestTemplate, startTestServer, type TestServer } from '@ropewalk/testkit';
import { createDrpcClient } from '@ropewalk/wire/drpc';
import { Agent, Stats_Metric_Type, Stats_MetricSchema } from '@ropewalk/wire/proto/agent';
import { byteStream } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import { Registry } from 'prom-client';
import { dialAgent, type MadeAgent, makeAgents } from '../rpc/testing/agents.ts';
import { createAgentMetrics } from './agent-metrics.ts';
import { parseMetrics, sampleOf } from './testing.ts';

const { COUNTER, GAUGE } = Stats_Metric_Type;
type Sent = MessageInitShape<typeof Stats_MetricSchema>;

let ahead = 0;
const clock = { ...systemClock, now: () => new Date(Date.now() + ahead) };
let server: TestServer;
let workspace: Workspace;
let agents: MadeAgent[];
before(async () => {
  const env = { CODER_PROMETHEUS_ADDRESS: '127.0.0.1:0', CODER_PROMETHEUS_COLLECT_AGENT_STATS: 'true' };
  server = await startTestServer({ clock, env: { CODER_PROMETHEUS_ENABLE: 'true', ...env } });
  const template = await createTestTemplate(server, 'measured');
  ({ workspace, agents } = await makeAgents(server, template, 'box', { count: 2 }));
});
after(() => server.stop());

async function send(agent: MadeAgent, metrics: Sent[]): Promise<void> {
  const session = new YamuxSession(byteStream(await dialAgent(server, agent.token)), { role: 'client' });
  await createDrpcClient(Agent, () => session.openStream()).updateStats({ stats: { metrics } });
  await session.close();
}
const scrape = async () => parseMetrics(await (await fetch(`${server.metricsUrl}/metrics`)).text());
const OF = { agent_name: 'a0', template_name: 'measured', username: 'admin', workspace_name: 'box' };
const SIZE = 'coderd_prometheusmetrics_metrics_aggregator_store_size';
const success = (value: string) => [{ name: 'success', value }];
/** A sender for the store alone. */
const sender = (n: number) => ({ id: agents[n]!.id, owner_id: workspace.owner_id });
const metric = (sent: Sent) => create(Stats_MetricSchema, sent);

test('exports what agents measure with the names of the workspace, until they stop reporting', async () => {
  await send(agents[0]!, [
    { name: 'coderd_agentstats_startup_script_seconds', type: GAUGE, value: 1.5, labels: success('true') },
    { name: 'agent_scripts_executed_total', type: COUNTER, value: 3, labels: success('true') },
    { name: 'agent_scripts_executed_total', type: COUNTER, value: 1, labels: success('false') },
    { name: 'magicsock_num_relays', type: GAUGE, value: 0 },
  ]);
  const found = await scrape();
  const seconds = 'coderd_agentstats_startup_script_seconds';
  assert.deepEqual([found.get(seconds)!.type, sampleOf(found, seconds, { ...OF, success: 'true' })], ['gauge', 1.5]);
  const scripts = 'agent_scripts_executed_total';
  assert.equal(found.get(scripts)!.type, 'counter');
  assert.equal(sampleOf(found, scripts, { ...OF, success: 'true' }), 3);
  assert.equal(sampleOf(found, scripts, { ...OF, success: 'false' }), 1);
  assert.equal(sampleOf(found, 'magicsock_num_relays', OF), 0);
  assert.equal(sampleOf(found, SIZE), 4);

  const again = { name: scripts, type: COUNTER, value: 5, labels: success('true') };
  ahead += 100_000;
  await send(agents[0]!, [again]);
  ahead += 100_000;
  const later = await scrape();
  assert.equal(sampleOf(later, scripts, { ...OF, success: 'true' }), 5);
  assert.deepEqual([later.get(scripts)!.samples.length, later.has(seconds), sampleOf(later, SIZE)], [1, false, 1]);
  await server.services.sql`UPDATE workspaces SET name = 'crate' WHERE id = ${workspace.id}`;
  assert.equal(sampleOf(await scrape(), scripts, { ...OF, workspace_name: 'crate', success: 'true' }), 5);
  await server.services.sql`UPDATE workspaces SET name = 'box' WHERE id = ${workspace.id}`;
});

test('lets an agent neither break the page nor speak for others', async () => {
  const bad = (more: Sent): Sent => ({ name: 'agent_x', type: GAUGE, value: 1, ...more });
  const label = (name: string, value = 'x') => ({ labels: [{ name, value }] });
  await send(agents[1]!, [
    bad({ name: 'coderd_build_info' }),
    bad({ name: 'coderd_agentstats_rx_bytes' }),
    bad({ name: 'process_resident_memory_bytes' }),
    bad({ name: 'coderd_api_request_latencies_seconds_count' }),
    bad({ name: 'up' }),
    bad({ name: 'a b' }),
    bad({ name: 'x\n# TYPE evil gauge\nevil 1' }),
    bad({ name: 'x'.repeat(129) }),
    bad({ name: '' }),
    bad({ value: Number.NaN }),
    bad({ value: Number.POSITIVE_INFINITY }),
    bad({ type: COUNTER, value: -1 }),
    bad({ type: Stats_Metric_Type.TYPE_UNSPECIFIED }),
    bad({ type: 77 as never }),
    bad(label('username', 'root')),
    bad(label('__name__')),
    bad(label('a-b')),
    bad(label('a', 'x'.repeat(129))),
    bad({ labels: [...label('a').labels, ...label('a').labels] }),
    bad({ labels: Array.from({ length: 9 }, (_, n) => ({ name: `l${n}`, value: 'x' })) }),
    bad({ name: 'constructor' }),
    bad({ name: 'agent_odd', ...label('constructor', '"\n\\}') }),
  ]);
  const found = await scrape();
  assert.equal(sampleOf(found, 'agent_odd', { ...OF, agent_name: 'a1', constructor: '"\n\\}' }), 1);
  assert.ok(!found.has('agent_x') && !found.has('evil'));
  assert.equal(sampleOf(found, 'coderd_agent_metrics_dropped_total', { reason: 'invalid' }), 21);
  // a name has one type
  await send(agents[0]!, [bad({ name: 'agent_typed', type: COUNTER })]);
  await send(agents[1]!, [bad({ name: 'agent_typed' })]);
  assert.equal((await scrape()).get('agent_typed')!.samples.length, 1);
});

test('keeps a limited number of metrics of an agent, an owner and in total', async () => {
  const registry = new Registry();
  const store = createAgentMetrics(registry, clock, ['username']);
  const many = (count: number) => Array.from({ length: count }, (_, n) => metric({ name: `m${n}`, type: GAUGE }));
  const size = async () => sampleOf(parseMetrics(await registry.metrics()), SIZE);
  store.report(sender(0), many(1_000));
  assert.equal(await size(), 300);
  const found = parseMetrics(await registry.metrics());
  assert.equal(sampleOf(found, 'coderd_agent_metrics_dropped_total', { reason: 'limit' }), 700);
  for (let n = 0; n < 20; n++) store.report({ id: crypto.randomUUID(), owner_id: workspace.owner_id }, many(300));
  assert.equal(await size(), 3_000);
  for (let n = 0; n < 200; n++) store.report({ id: crypto.randomUUID(), owner_id: `owner ${n}` }, many(300));
  assert.equal(await size(), 50_000);
  store.report(sender(0), [metric({ name: 'm1', type: GAUGE, value: 7 })]);
  await store.read(server.services.sql);
  assert.equal(sampleOf(parseMetrics(await store.text()), 'm1', { username: 'admin' }), 7);
  ahead += 130_000;
  await store.read(server.services.sql);
  assert.equal(await size(), 0);
  store.report(sender(0), many(1));
  assert.equal(await size(), 1);
});

test('sums the values of agents whose chosen labels are equal', async () => {
  const store = createAgentMetrics(new Registry(), clock, ['template_name']);
  const scripts = (value: number, of: string) =>
    metric({ name: 'agent_scripts_executed_total', type: COUNTER, value, labels: success(of) });
  store.report(sender(0), [scripts(2, 'true'), scripts(1, 'false')]);
  store.report(sender(1), [scripts(3, 'true')]);
  store.report({ id: crypto.randomUUID(), owner_id: workspace.owner_id }, [scripts(100, 'true')]);
  assert.equal(await store.text().then((text) => text.trim()), '', 'nothing without the names');
  await store.read(server.services.sql);
  const found = parseMetrics(await store.text());
  const of = (value: string) => ({ template_name: 'measured', success: value });
  assert.equal(sampleOf(found, 'agent_scripts_executed_total', of('true')), 5);
  assert.equal(sampleOf(found, 'agent_scripts_executed_total', of('false')), 1);
});
