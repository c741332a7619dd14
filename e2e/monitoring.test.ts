import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { WorkspacesResponse } from '@ropewalk/contract';
import { upstreamMetrics } from '@ropewalk/contract/upstream/facts';
import { completeJob } from '@ropewalk/server/app/job/complete';
import { parseMetrics } from '@ropewalk/server/metrics/testing';
import { createTestTemplate, eventually, startTestServer, type TestServer, takeJob } from '@ropewalk/testkit';
import { startTestWorkspace, type TestWorkspace } from '@ropewalk/testkit/workspace';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';

// The alert rules and the dashboard in deploy/monitoring, checked by Prometheus's own tool.

const FOLDER = join(import.meta.dirname, '../deploy/monitoring');
const skip = spawnSync('promtool', ['--version']).status !== 0 && 'needs promtool (of the package prometheus)';

interface Panel {
  id: number;
  title: string;
  type: string;
  gridPos: { x: number; y: number; w: number; h: number };
  targets?: { expr: string }[];
}
const dashboard = JSON.parse(readFileSync(join(FOLDER, 'dashboard.json'), 'utf8')) as { panels: Panel[] };
const expressions = dashboard.panels.flatMap(({ targets = [] }) =>
  // Grafana's own variables
  targets.map(({ expr }) => expr.replaceAll('$__rate_interval', '5m').replaceAll('$job', '.+')),
);

let server: TestServer;
let scratch: string;
before(async () => {
  scratch = mkdtempSync(join(tmpdir(), 'platform-monitoring-'));
  server = await startTestServer({
    env: {
      CODER_PROMETHEUS_ENABLE: 'true',
      CODER_PROMETHEUS_ADDRESS: '127.0.0.1:0',
      CODER_PROMETHEUS_COLLECT_AGENT_STATS: 'true',
      CODER_PROMETHEUS_COLLECT_DB_METRICS: 'true',
      CODER_WORKSPACE_PREBUILDS_RECONCILIATION_INTERVAL: '200ms',
    },
  });
});
after(async () => {
  rmSync(scratch, { recursive: true, force: true });
  await server.stop();
});

const scrapeText = async () => (await fetch(`${server.metricsUrl}/metrics`)).text();

function promtool(args: string[], input?: string): void {
  const { status, stdout, stderr } = spawnSync('promtool', args, { cwd: FOLDER, encoding: 'utf8', input });
  assert.equal(status, 0, stdout + stderr);
}

test('the alert rules are valid, stay quiet for a healthy server and fire for one in trouble', { skip }, () => {
  promtool(['check', 'rules', '--lint-fatal', 'alerts.yml']);
  promtool(['test', 'rules', 'alerts.test.yml']);
});

test('the expressions of the dashboard are valid, and its panels do not overlap', { skip }, () => {
  const rules = expressions.map((expr, index) => ({ record: `panel:${index}`, expr }));
  const file = join(scratch, 'rules.json');
  writeFileSync(file, JSON.stringify({ groups: [{ name: 'dashboard', rules }] }));
  promtool(['check', 'rules', file]);
  assert.ok(expressions.length > 20);
  const taken = new Set<string>();
  for (const { gridPos, title } of dashboard.panels) {
    for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
      for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
        assert.ok(x < 24 && !taken.has(`${x},${y}`), title);
        taken.add(`${x},${y}`);
      }
    }
  }
});

test('a server has every metric that the rules and the dashboard name, in a form that Prometheus reads', {
  skip,
}, async () => {
  const text = await scrapeText();
  // checks the syntax; it fails also for advice on names, which are upstream's
  const { stderr } = spawnSync('promtool', ['check', 'metrics'], { encoding: 'utf8', input: text });
  assert.doesNotMatch(stderr, /error while linting|parse/);
  const known = new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name!));
  const named = [readFileSync(join(FOLDER, 'alerts.yml'), 'utf8'), ...expressions].flatMap(
    (from) => from.match(/\b(?:coderd|nodejs|process)_[a-z0-9_]+/g) ?? [],
  );
  const missing = named.filter((name) => !known.has(name) && !known.has(name.replace(/_(?:bucket|sum|count)$/, '')));
  assert.deepEqual(missing, []);
});

/** Ends the build that waits, as a daemon does. */
async function build(): Promise<void> {
  const own = await takeJob(server);
  const type = { case: 'workspaceBuild' as const, value: { resources: [{ name: 'machine', type: 'vm' }] } };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
}

/** A pool, a workspace out of it, and another one of its preset. */
async function usePool(): Promise<void> {
  const presets = [{ name: 'Small', parameters: [], prebuild: { instances: 1 } }];
  const template = await createTestTemplate(server, 'pooled', { presets });
  const isFull = (status: string) =>
    eventually(`a prebuilt workspace that is ${status}`, async () => {
      const { body } = await server.api<WorkspacesResponse>('GET', '/workspaces?q=owner:prebuilds');
      return body.workspaces.some(({ latest_build: { status: its } }) => its === status);
    });
  const versions = `/templateversions/${template.active_version_id}/presets`;
  const [preset] = (await server.api<{ ID: string }[]>('GET', versions)).body;
  const create = async (name: string) => {
    const body = { name, template_id: template.id, template_version_preset_id: preset!.ID };
    const { status } = await server.api('POST', '/users/me/workspaces', { body });
    assert.equal(status, 201);
    await build();
  };
  await isFull('pending');
  // no prebuilt workspace runs yet: this one is new
  await server.api('PUT', '/prebuilds/settings', { body: { reconciliation_paused: true } });
  await build();
  await isFull('running');
  await create('claimed');
  await create('fresh');
  await server.api('PUT', '/prebuilds/settings', { body: { reconciliation_paused: false } });
}

/** Works as people do, until the agent has reported twice. */
async function work(): Promise<TestWorkspace> {
  await usePool();
  await eventually('the next prebuilt workspace', () =>
    build()
      .then(() => true)
      .catch(() => false),
  );
  const script = { displayName: 'Start', script: 'true', runOnStart: true, startBlocksLogin: true, icon: '' };
  return startTestWorkspace(server, 'watched', { agent: { scripts: [script] } });
}

/** Why this server does not have a metric of upstream. Each reason applies to a metric. */
const ABSENT: readonly [RegExp, string][] = [
  [/^go_|^promhttp_|^process_virtual_memory_max_bytes$/, "the runtime and library of upstream's server"],
  [/^agent_boundary_|^coder_ai_gateway_|^coderd_chat/, 'features that this server does not have'],
  [/^coder_nats_pubsub_/, 'PostgreSQL carries the events between servers'],
  [/^coder_servertailnet_/, "parts of upstream's server"],
  [
    /^coder_derp_server_(?:average_queue|got_ping|home_moves|packets_dropped_type|packets_received_kind|peer_gone|sent_pong|unknown_frames|watchers)/,
    'parts that the relay of this server does not have',
  ],
  [
    /^coderd_(?:agentapi_metadata|authz|open_files?|prometheusmetrics_(?!.*_store_size$).*)_/,
    "the insides of upstream's server",
  ],
  [/^coderd_db_(?:query_counts|tx)_|^coderd_dbpurge_(?:chat|records)_/, "the statements of upstream's server"],
  [/^coderd_experiments$/, 'no experiment waits to be enabled on this server'],
  [/^coderd_license_limit_users$/, 'the number of accounts has no limit'],
  [/^coderd_agentstats_currently_reachable_peers$/, "only upstream's agents send it"],
  [/^coderd_notifications_(?:pending|synced)_/, 'results of notifications are stored when they are known'],
];

test("a server that works has what upstream's dashboards and alert rules show, with their labels", {
  skip,
}, async (t) => {
  const workspace = await work();
  t.after(() => workspace.stop());
  // agents send statistics while they have sessions
  const terminal = new WebSocket(
    `${server.url.replace('http', 'ws')}/api/v2/workspaceagents/${workspace.agentId}/pty?reconnect=${crypto.randomUUID()}` +
      `&width=80&height=24&coder_session_token=${server.adminToken}`,
  );
  t.after(() => terminal.close());
  await once(terminal, 'open');
  const shown = Object.entries(upstreamMetrics()).filter(([name, { shown: isShown }]) => isShown && !reasonFor(name));
  assert.ok(shown.length > 20);
  let text = '';
  let families = parseMetrics(await scrapeText());
  let without: string[] = [];
  await eventually('values', async () => {
    text = await scrapeText();
    families = parseMetrics(text);
    without = shown.map(([name]) => name).filter((name) => !families.get(name)?.samples.length);
    return without.length === 0;
  }).catch((err) => assert.deepEqual(without, [], String(err)));
  const series = text.match(/^[^#\n].*$/gm)!.map((line) => {
    const [, name, value] = /^(.*) (\S+)$/.exec(line)!;
    return { series: name, values: `${value}x5` };
  });
  const expressions = shown.map(([name, { type, labels }]) => {
    assert.equal(families.get(name)!.type, type, name);
    const all = labels.map((label) => `${label}!=""`).join(',');
    return {
      expr: `count(${type === 'histogram' ? `${name}_bucket` : name}{${all}}) > bool 0`,
      eval_time: '1m',
      exp_samples: [{ value: 1, labels: '{}' }],
    };
  });
  const tests = [{ interval: '1m', input_series: series, promql_expr_test: expressions }];
  const file = join(scratch, 'shown.json');
  writeFileSync(file, JSON.stringify({ rule_files: [], evaluation_interval: '1m', tests }));
  promtool(['test', 'rules', file]);
});

/** Labels that a metric of upstream has here only without a value. */
const WITHOUT_LABEL: ReadonlySet<string> = new Set(['coderd_build_info: no label revision']); // a version has no commit
const reasonFor = (name: string): string | undefined => ABSENT.find(([names]) => names.test(name))?.[1];

test('has every metric that upstream documents, with its labels, or a reason', async () => {
  const families = parseMetrics(await scrapeText());
  const wrong: string[] = [];
  const unused = new Set(ABSENT);
  for (const [name, { type, labels }] of Object.entries(upstreamMetrics())) {
    const family = families.get(name);
    const absent = ABSENT.find(([names]) => names.test(name));
    if (absent) unused.delete(absent);
    if (absent && !family) continue;
    if (!family || absent) {
      wrong.push(`${name}: ${family ? 'exists' : 'missing without a reason'}`);
      continue;
    }
    if (family.type !== type) wrong.push(`${name}: ${family.type} instead of ${type}`);
    const known = new Set(family.samples.flatMap((sample) => Object.keys(sample.labels)));
    if (known.size === 0 && family.samples.length === 0) continue;
    for (const label of labels) if (!known.has(label)) wrong.push(`${name}: no label ${label}`);
  }
  assert.deepEqual(new Set(wrong), WITHOUT_LABEL);
  assert.deepEqual([...unused], []);
});
