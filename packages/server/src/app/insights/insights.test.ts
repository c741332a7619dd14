import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type {
  BuildTimesResponse,
  DAUsResponse,
  GetUserStatusCountsResponse,
  Template,
  TemplateInsightsResponse,
  UserActivityInsightsResponse,
  UserLatencyInsightsResponse,
  Workspace,
} from '@ropewalk/contract';
import { createTestTemplate, insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { Registry } from 'prom-client';
import { connectedAgent, systemTask } from '../../authz/proofs.ts';
import { purgeUsage, type StatsReport, writeStats } from '../../db/queries/agent-reports.ts';
import { recordAppUse } from '../../db/queries/workspace-apps.ts';
import { createInsightsGauges } from '../../metrics/insights.ts';
import { parseMetrics, sampleOf } from '../../metrics/testing.ts';
import { systemContext } from '../context/context.ts';

let server: TestServer;
let base: Template;
let other: Template;
let ann: { id: string; token: string };
let bob: { id: string; token: string };
let workspaces: Record<'ann1' | 'ann2' | 'bob1', Workspace>;

before(async () => {
  server = await startTestServer();
  const parameters = {
    richParameters: [
      { name: 'region', type: 'string', mutable: true, required: false, defaultValue: 'eu', displayName: 'Region' },
    ],
  };
  base = await createTestTemplate(server, 'base', parameters);
  other = await createTestTemplate(server, 'other');
  ann = await insertPerson(server, 'ann');
  bob = await insertPerson(server, 'bob');
  const create = async (token: string, name: string, template: Template, region?: string) => {
    const { status, body } = await server.api<Workspace>('POST', '/users/me/workspaces', {
      token,
      body: {
        name,
        template_id: template.id,
        ...(region ? { rich_parameter_values: [{ name: 'region', value: region }] } : {}),
      },
    });
    assert.equal(status, 201, JSON.stringify(body));
    return body;
  };
  workspaces = {
    ann1: await create(ann.token, 'one', base, 'us'),
    ann2: await create(ann.token, 'two', other),
    bob1: await create(bob.token, 'one', base, 'us'),
  };
});
after(() => server.stop());

/** Minutes from..to of a half hour as bits. */
const minutes = (from: number, to: number) => {
  let bits = 0;
  for (let i = from; i < to; i++) bits |= 1 << i;
  return bits;
};

async function use(workspace: Workspace, start: string, columns: Record<string, number>): Promise<void> {
  await server.services.sql`INSERT INTO workspace_usage ${server.services.sql({
    workspace_id: workspace.id,
    start_time: new Date(start),
    ...columns,
  } as never)}`;
}

const periodOf = (from: string, to: string, more = '') =>
  `start_time=${encodeURIComponent(from)}&end_time=${encodeURIComponent(to)}${more}`;
/** Three days of a month ago, as `YYYY-MM-DD`: the server keeps usage for about a year. */
const day = (n: number) => new Date(Date.now() + (n - 30) * 86_400_000).toISOString().slice(0, 10);
const [DAY1, DAY2, DAY3] = [day(0), day(1), day(2)];
const DAYS = [`${DAY1}T00:00:00Z`, `${DAY3}T00:00:00Z`] as const;

test('sums the use of templates by person, day and kind, and counts a shared minute once', async () => {
  await use(workspaces.ann1, `${DAY1}T10:00:00Z`, { ssh: minutes(20, 30), vscode: minutes(0, 5) });
  // goes on from the half hour before
  await use(workspaces.ann1, `${DAY1}T10:30:00Z`, { ssh: minutes(0, 10) | minutes(20, 21) });
  await use(workspaces.ann2, `${DAY1}T10:00:00Z`, { ssh: minutes(25, 30), latency_sum: 60, latency_count: 3 });
  await use(workspaces.bob1, `${DAY2}T23:30:00Z`, { reconnecting_pty: minutes(0, 30) });
  await use(workspaces.bob1, `${DAY3}T00:00:00Z`, { ssh: minutes(0, 30) });
  const { status, body } = await server.api<TemplateInsightsResponse>(
    'GET',
    `/insights/templates?${periodOf(...DAYS, '&interval=day')}`,
  );
  assert.equal(status, 200, JSON.stringify(body));
  const report = body.report!;
  assert.equal(report.active_users, 2);
  assert.deepEqual(new Set(report.template_ids), new Set([base.id, other.id]));
  const usage = Object.fromEntries(report.apps_usage.map((app) => [app.slug, [app.seconds, app.times_used]]));
  // ann's ten minutes and eleven more of the one template, and five of the other
  assert.deepEqual(usage['ssh'], [(10 + 11 + 5) * 60, 3]);
  assert.deepEqual(usage['vscode'], [5 * 60, 1]);
  assert.deepEqual(usage['jetbrains'], [0, 0]);
  assert.deepEqual(usage['reconnecting-pty'], [30 * 60, 1]);
  assert.deepEqual(
    body.interval_reports!.map(({ start_time, active_users }) => [start_time, active_users]),
    [
      [`${DAY1}T00:00:00.000Z`, 1],
      [`${DAY2}T00:00:00.000Z`, 1],
    ],
  );
  const activity = await server.api<UserActivityInsightsResponse>(
    'GET',
    `/insights/user-activity?${periodOf(...DAYS)}`,
  );
  assert.deepEqual(
    activity.body.report.users.map(({ username, seconds }) => [username, seconds]),
    [
      ['ann', (5 + 10 + 11) * 60],
      ['bob', 30 * 60],
    ],
  );
  const latency = await server.api<UserLatencyInsightsResponse>('GET', `/insights/user-latency?${periodOf(...DAYS)}`);
  assert.deepEqual(latency.body.report.users, [
    { user_id: ann.id, username: 'ann', avatar_url: '', template_ids: [other.id], latency_ms: { p50: 20, p95: 20 } },
  ]);
  const one = await server.api<TemplateInsightsResponse>(
    'GET',
    `/insights/templates?${periodOf(...DAYS, `&template_ids=${other.id}&sections=report`)}`,
  );
  assert.equal(one.body.interval_reports, undefined);
  assert.equal(one.body.report!.active_users, 1);
});

test('counts the values of parameters', async () => {
  const from = new Date(Date.now() - 3_600_000).toISOString();
  const to = new Date(Date.now() + 3_600_000).toISOString();
  const { body } = await server.api<TemplateInsightsResponse>('GET', `/insights/templates?${periodOf(from, to)}`);
  const [region] = body.report!.parameters_usage;
  assert.deepEqual(region, {
    name: 'region',
    display_name: 'Region',
    description: '',
    type: 'string',
    template_ids: [base.id],
    values: [{ value: 'us', count: 2 }],
  });
});

test('rolls up what agents report, and the use of apps, in the same statements', async () => {
  const { sql } = server.services;
  const { ann1 } = workspaces;
  const report: StatsReport = {
    rxBytes: 1,
    txBytes: 1,
    rxPackets: 1,
    txPackets: 1,
    vscode: 0,
    jetbrains: 2,
    reconnectingPty: 0,
    ssh: 1,
    connections: 1,
    protocols: {},
    latencyMs: 12,
  };
  const [agent] = await sql<{ id: string }[]>`WITH resource AS (
      INSERT INTO workspace_resources (job_id, transition, type, name)
      VALUES (${ann1.latest_build.job.id}, 'start', 'x', 'x') RETURNING id)
    INSERT INTO workspace_agents (id, resource_id, name, operating_system, architecture, auth_token)
    SELECT gen_random_uuid(), id, 'main', 'linux', 'amd64', gen_random_uuid() FROM resource RETURNING id`;
  const from = connectedAgent({ id: agent!.id, workspace_id: ann1.id });
  await writeStats(sql, [{ agent: from, report }]);
  await writeStats(sql, [{ agent: from, report: { ...report, ssh: 0, latencyMs: -1 } }]);
  await writeStats(sql, [{ agent: from, report: { ...report, ssh: 0, jetbrains: 0 } }]);
  const task = systemTask(systemContext(server.services, 'test'));
  for (const slug of ['web', 'web', undefined]) await recordAppUse(sql, task, { workspaceId: ann1.id, slug });
  const since = new Date(Date.now() - 7_200_000).toISOString();
  const until = new Date(Date.now() + 7_200_000).toISOString();
  const { body } = await server.api<TemplateInsightsResponse>('GET', `/insights/templates?${periodOf(since, until)}`);
  const usage = new Map(body.report!.apps_usage.map((app) => [app.slug, app]));
  for (const slug of ['ssh', 'jetbrains', 'web']) {
    const { seconds, times_used, template_ids } = usage.get(slug)!;
    // the minute may have ended between two statements
    assert.ok(seconds === 60 || seconds === 120, `${slug}: ${seconds}`);
    assert.equal(times_used, 1, slug);
    assert.deepEqual(template_ids, [base.id]);
  }
  assert.deepEqual([usage.get('web')!.type, usage.get('web')!.display_name], ['app', 'web']);
  const latency = await server.api<UserLatencyInsightsResponse>(
    'GET',
    `/insights/user-latency?${periodOf(since, until)}`,
  );
  assert.deepEqual(latency.body.report.users[0]!.latency_ms, { p50: 12, p95: 12 });
  const daus = await server.api<DAUsResponse>('GET', '/insights/daus?tz_offset=0');
  const today = new Date().toISOString().slice(0, 10);
  assert.equal(daus.body.entries.find(({ date }) => date === today)?.amount, 1);
});

test('shows how long starts took on each day', async () => {
  const { sql } = server.services;
  const builds = await sql<{ job_id: string }[]>`SELECT job_id FROM workspace_builds ORDER BY id`;
  const finish = (index: number, ended: string, seconds: number, status = 'completed') => sql`
    UPDATE provisioner_jobs SET started_at = ${ended}::timestamptz - ${seconds} * interval '1 second',
      completed_at = ${ended}::timestamptz, error = ${status === 'failed' ? 'broken' : null}
    WHERE id = ${builds[index]!.job_id}`;
  const day = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10);
  await finish(0, `${day}T10:00:00Z`, 2);
  await finish(1, `${day}T11:00:00Z`, 4);
  await finish(2, `${day}T12:00:00Z`, 100, 'failed');
  const { body } = await server.api<BuildTimesResponse>('GET', '/insights/build-times?tz_offset=0');
  assert.deepEqual(body, { tz_hour_offset: 0, entries: [{ date: day, count: 2, p50: 3_000, p95: 3_900 }] });
  assert.equal((await server.api('GET', '/insights/build-times', { token: ann.token })).status, 404);
});

test('counts accounts by status over time', async () => {
  const { sql } = server.services;
  const cleo = await insertPerson(server, 'cleo');
  await sql`UPDATE user_status_changes SET changed_at = now() - interval '10 days' WHERE user_id = ${cleo.id}`;
  assert.equal((await server.api('PUT', '/users/cleo/status/suspend')).status, 200);
  const { body } = await server.api<GetUserStatusCountsResponse>('GET', '/insights/user-status-counts?tz_offset=2');
  const at = (status: string, daysAgo: number) => body.status_counts[status]!.at(-1 - daysAgo)!.count;
  assert.equal(body.status_counts['active']!.length, 61);
  assert.equal(at('active', 11), 0);
  assert.equal(at('active', 9), 1);
  assert.equal(at('suspended', 1), 0);
  assert.equal(at('suspended', 0), 1);
  const [{ count }] = await sql<
    [{ count: number }]
  >`SELECT count(*) FROM users WHERE status = 'active' AND NOT deleted AND NOT is_system`;
  assert.equal(at('active', 0), count);
  assert.equal((await server.api('DELETE', '/users/cleo')).status, 200);
  const later = await server.api<GetUserStatusCountsResponse>('GET', '/insights/user-status-counts');
  assert.equal(later.body.status_counts['suspended']!.at(-1)!.count, 0);
});

test('shows insights only to those who may view them, and rejects invalid periods', async () => {
  const author = await insertPerson(server, 'author', ['template-admin']);
  const auditor = await insertPerson(server, 'auditor', ['auditor']);
  const get = async (path: string, token: string) => (await server.api('GET', path, { token })).status;
  for (const name of ['templates', 'user-activity', 'user-latency']) {
    const all = `/insights/${name}?${periodOf(...DAYS)}`;
    const one = `${all}&template_ids=${base.id}`;
    for (const path of [all, one]) {
      assert.equal(await get(path, author.token), 200, path);
      assert.equal(await get(path, auditor.token), 200, path);
      assert.notEqual(await get(path, ann.token), 200, path);
    }
    for (const query of [
      `start_time=${DAYS[0]}`,
      periodOf(DAY1, DAY2),
      periodOf(DAYS[1], DAYS[0]),
      periodOf('2020-01-01T00:00:00Z', '2026-01-01T00:00:00Z'),
      periodOf(...DAYS, '&template_ids=x'),
    ]) {
      assert.equal(await get(`/insights/${name}?${query}`, server.adminToken), 400, query);
    }
    const unknown = `${all}&template_ids=${crypto.randomUUID()}`;
    assert.equal(await get(unknown, server.adminToken), 404);
  }
  assert.equal(await get('/insights/daus', auditor.token), 200);
  assert.notEqual(await get('/insights/daus', author.token), 200);
  assert.equal(await get('/insights/user-status-counts', author.token), 200);
  assert.notEqual(await get('/insights/user-status-counts', ann.token), 200);
  assert.equal(await get('/insights/daus?tz_offset=15', auditor.token), 400);
});

test('deletes old usage', async () => {
  const { sql } = server.services;
  await use(workspaces.ann1, '2020-01-01T00:00:00Z', { ssh: 1 });
  const task = systemTask(systemContext(server.services, 'test'));
  assert.equal(await purgeUsage(sql, task, { days: 410, most: 10 }), 1);
  const [{ count }] = await sql<
    [{ count: number }]
  >`SELECT count(*) FROM workspace_usage WHERE start_time < '2021-01-01'`;
  assert.equal(count, 0);
});

test('metrics show the use of the last five minutes by template', async () => {
  const { sql } = server.services;
  // the last five minutes are two of one half hour and three of the next
  await use(workspaces.ann1, '2036-04-01T10:00:00Z', { ssh: minutes(0, 30), vscode: minutes(29, 30) });
  await use(workspaces.ann1, '2036-04-01T10:30:00Z', { ssh: minutes(0, 2) });
  await use(workspaces.bob1, '2036-04-01T10:00:00Z', { jetbrains: minutes(0, 28) });
  await use(workspaces.bob1, '2036-04-01T10:30:00Z', { ssh: minutes(0, 1) });
  await sql`INSERT INTO workspace_app_usage VALUES (${workspaces.bob1.id}, '2036-04-01T10:30:00Z', 'web', ${minutes(0, 3)})`;
  await sql`UPDATE workspace_builds SET created_at = '2036-04-01T10:31:00Z' WHERE workspace_id = ${workspaces.bob1.id}`;
  const registry = new Registry();
  let now = Date.parse('2036-04-01T10:33:00Z');
  const gauges = createInsightsGauges(registry, {
    now: () => new Date(now),
    monotonic: () => now,
    sleep: async () => {},
  });
  const read = async () => {
    await gauges.read(sql);
    const families = parseMetrics(await registry.metrics());
    return (name: string, labels: Record<string, string>) =>
      sampleOf(families, `coderd_insights_${name}`, { template_name: 'base', organization_name: 'coder', ...labels });
  };
  const first = await read();
  assert.equal(first('templates_active_users', {}), 2);
  const seconds = (application_name: string, slug = '') =>
    first('applications_usage_seconds', { application_name, slug });
  assert.deepEqual(
    ['SSH', 'Visual Studio Code', 'JetBrains', 'Web Terminal'].map((name) => seconds(name)),
    [300, 60, 0, 0],
  );
  assert.equal(seconds('', 'web'), 180);
  const region = { parameter_name: 'region', parameter_type: 'string', parameter_value: 'us' };
  assert.equal(first('parameters', region), 1);

  await sql`UPDATE workspace_app_usage SET minutes = 0`;
  now += 4 * 60_000;
  assert.equal((await read())('applications_usage_seconds', { application_name: '', slug: 'web' }), 180, 'read early');
  now += 2 * 60_000;
  assert.equal((await read())('templates_active_users', {}), undefined);
});
