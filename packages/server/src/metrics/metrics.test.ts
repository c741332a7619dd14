import assert from 'node:assert/strict';
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { createServer } from 'node:net';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { Workspace } from '@ropewalk/contract';
import { silentLogger } from '@ropewalk/kit';
import {
  createTestTemplate,
  eventually,
  failTaken,
  pendingVersion,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { TimingState } from '@ropewalk/wire/proto/provisioner';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { Registry } from 'prom-client';
import { systemContext } from '../app/context/context.ts';
import { requestCancel } from '../app/job/cancel.ts';
import { checkpoint } from '../app/job/checkpoint.ts';
import { completeJob } from '../app/job/complete.ts';
import { insertDaemon } from '../app/job/testing/daemons.ts';
import { systemTask, verifiedDaemon } from '../authz/proofs.ts';
import { loadConfig } from '../config/load.ts';
import { BUILT_IN_KEY_ID } from '../db/queries/daemons.ts';
import { acquireJob } from '../db/queries/job-queue.ts';
import { jobById } from '../db/queries/jobs.ts';
import { startServer } from '../main.ts';
import { createDatabaseGauges } from './gauges.ts';
import { createJobMetrics } from './jobs.ts';
import { tagsLabel } from './labels.ts';
import { parseMetrics, sampleOf } from './testing.ts';

const ON = { CODER_PROMETHEUS_ENABLE: 'true', CODER_PROMETHEUS_ADDRESS: '127.0.0.1:0' };
const UNTAGGED = { scope: 'organization', owner: '' };

let server: TestServer;
before(async () => {
  server = await startTestServer({ env: ON });
});
after(() => server.stop());

async function scrapeText(from: TestServer): Promise<string> {
  const response = await fetch(`${from.metricsUrl}/metrics`);
  assert.equal(response.status, 200);
  assert.match(response.headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/);
  return response.text();
}
const scrape = async (from = server) => parseMetrics(await scrapeText(from));

const daemon = (name: string, tags: Record<string, string>, on = server) =>
  insertDaemon(on, name, tags, { key_id: BUILT_IN_KEY_ID });

test('the strict parser accepts only valid input', () => {
  const head = '# HELP a_b x\n# TYPE a_b gauge\n';
  const good = parseMetrics(`${head}a_b{c="d\\"\\\\\\n,}",e=""} 1.5e3\na_b -Inf\n`);
  assert.equal(sampleOf(good, 'a_b', { c: 'd"\\\n,}', e: '' }), 1500);
  assert.equal(sampleOf(good, 'a_b'), -Infinity);
  const bucket = (le: string, value: number) => `h_bucket{le="${le}"} ${value}\n`;
  const histogram = '# HELP h x\n# TYPE h histogram\n';
  parseMetrics(`${histogram}${bucket('1', 1)}${bucket('+Inf', 2)}h_sum 3\nh_count 2\n`);
  for (const bad of [
    `${head}a_b 1`,
    'a_b 1\n',
    `${head}a_c 1\n`,
    `${head}a_b one\n`,
    `${head}a_b{c=d} 1\n`,
    `${head}a_b{c="d"e="f"} 1\n`,
    `${head}a_b{c="\\x"} 1\n`,
    `${head}a_b{c="d",c="e"} 1\n`,
    `${head}a_b 1\na_b 2\n`,
    `${head}${head}`,
    `${histogram}${bucket('1', 3)}${bucket('+Inf', 2)}h_sum 3\nh_count 2\n`,
    `${histogram}${bucket('1', 1)}${bucket('+Inf', 2)}h_sum 3\nh_count 3\n`,
    `${histogram}${bucket('1', 1)}h_sum 3\nh_count 1\n`,
  ]) {
    assert.throws(() => parseMetrics(bad), assert.AssertionError, bad);
  }
});

test('counts requests by route, without revealing their paths', async () => {
  const secret = 'A'.repeat(43);
  await server.api('GET', '/users/me');
  await server.api('GET', '/users/admin');
  await server.api('GET', `/provisionerkeys/${secret}`, { token: null });
  await server.api('GET', `/nowhere/${secret}`);
  const text = await scrapeText(server);
  const found = parseMetrics(text);
  assert.ok(!text.includes(secret) && !text.includes('/nowhere') && !text.includes(server.adminToken));
  const requests = (path: string, code: string) =>
    sampleOf(found, 'coderd_api_requests_processed_total', { code, method: 'GET', path });
  assert.equal(requests('/api/v2/users/{user}', '200'), 2);
  assert.equal(requests('/api/v2/provisionerkeys/{provisionerkey}', '401'), 1);
  assert.equal(requests('UNKNOWN', '404'), 1);
  const latency = { method: 'GET', path: '/api/v2/users/{user}' };
  assert.equal(sampleOf(found, 'coderd_api_request_latencies_seconds_count', latency), 2);
  assert.ok(sampleOf(found, 'coderd_api_request_latencies_seconds_sum', latency)! > 0);
  assert.equal(sampleOf(found, 'coderd_api_concurrent_requests', { method: 'GET', path: latency.path }), 0);
  assert.equal(sampleOf(found, 'coderd_build_info', { version: server.services.version }), 1);
  assert.ok(sampleOf(found, 'process_resident_memory_bytes')! > 1e6);
  for (const name of ['nodejs_eventloop_lag_seconds', 'process_cpu_seconds_total']) assert.ok(found.has(name), name);
});

test('counts WebSockets separately, while open and when closed', async () => {
  const url = server.url.replace('http', 'ws');
  const path = '/api/v2/workspaceagents/me/rpc';
  // by hand: Node's WebSocket sends a second request after a 401
  const headers = {
    connection: 'upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': 'x',
  };
  const rejected = get(`${server.url}${path}`, { headers });
  const [answer] = (await once(rejected, 'response')) as [IncomingMessage];
  answer.resume();
  assert.equal(answer.statusCode, 401);
  const version = await pendingVersion(server);
  const logs = '/api/v2/templateversions/{templateversion}/logs';
  const socket = new WebSocket(
    `${url}${logs.replace('{templateversion}', version.id)}?follow&coder_session_token=${server.adminToken}`,
  );
  await once(socket, 'open');
  const open = await scrape();
  assert.equal(sampleOf(open, 'coderd_api_concurrent_websockets', { path: logs }), 1);
  assert.equal(sampleOf(open, 'coderd_api_websocket_durations_seconds_count', { path: logs }), undefined);
  socket.close();
  const ended = await eventually('the WebSocket is counted', async () => {
    const found = await scrape();
    return sampleOf(found, 'coderd_api_websocket_durations_seconds_count', { path: logs }) === 1 && found;
  });
  assert.equal(sampleOf(ended, 'coderd_api_concurrent_websockets', { path: logs }), 0);
  const answered = { method: 'GET', path: logs, code: '200' };
  assert.equal(sampleOf(ended, 'coderd_api_requests_processed_total', answered), undefined);
  const rejection = { method: 'GET', path, code: '401' };
  assert.equal(sampleOf(ended, 'coderd_api_requests_processed_total', rejection), 1);
  assert.equal(sampleOf(ended, 'coderd_api_concurrent_websockets', { path }), 0);
  assert.equal(sampleOf(ended, 'coderd_api_websocket_durations_seconds_count', { path }), undefined);
  await failTaken(server, await takeJob(server), 'not needed');
});

test('answers every path except /metrics with 404', async () => {
  for (const [path, init] of [
    ['/', {}],
    ['/metrics/', {}],
    ['/api/v2/buildinfo', {}],
    ['/metrics', { method: 'POST' }],
  ] as const) {
    assert.equal((await fetch(`${server.metricsUrl}${path}`, init)).status, 404, path);
  }
  assert.equal((await fetch(`${server.url}/metrics`)).headers.get('content-type')?.includes('version=0.0.4'), false);
});

test('reports the queue and the daemons by tag set', async () => {
  const { sql } = server.services;
  const gpu = { ...UNTAGGED, gpu: 'yes' };
  const plain = await daemon('plain', UNTAGGED);
  await daemon('gpu', { ...gpu, zone: 'a' });
  const away = await daemon('away', { ...gpu, zone: 'a' });
  await sql`UPDATE provisioner_daemons SET last_seen_at = now() - interval '2 minutes' WHERE id = ${away.id}`;
  await pendingVersion(server);
  const job = await acquireJob(sql, {
    worker: verifiedDaemon({
      id: plain.id,
      organizationId: plain.organization_id,
      provisioners: ['terraform'],
      tags: UNTAGGED,
    }),
    leaseMs: 60_000,
  });
  const first = await pendingVersion(server, { tags: { gpu: 'yes' } });
  await sql`UPDATE provisioner_jobs SET created_at = now() - interval '100 seconds' WHERE id = ${first.job.id}`;
  await pendingVersion(server, { tags: { gpu: 'yes' } });
  await pendingVersion(server);

  const found = await scrape();
  const organization = 'coder';
  const untagged = { organization, tags: 'scope=organization' };
  const tagged = { organization, tags: 'gpu=yes,scope=organization' };
  const crew = { organization, tags: 'gpu=yes,scope=organization,zone=a' };
  assert.equal(sampleOf(found, 'coderd_provisioner_queue_depth', untagged), 1);
  assert.equal(sampleOf(found, 'coderd_provisioner_queue_depth', tagged), 2);
  const oldest = sampleOf(found, 'coderd_provisioner_queue_oldest_seconds', tagged)!;
  assert.ok(oldest >= 100 && oldest < 200, String(oldest));
  assert.equal(sampleOf(found, 'coderd_provisioner_matching_idle', untagged), 0);
  assert.equal(sampleOf(found, 'coderd_provisioner_matching_idle', tagged), 1);
  const daemons = (labels: object, status: string) =>
    sampleOf(found, 'coderd_provisioner_daemons', { ...labels, status } as Record<string, string>);
  const statuses = ['idle', 'busy', 'offline'];
  assert.deepEqual(
    statuses.map((status) => daemons(untagged, status)),
    [0, 1, 0],
  );
  assert.deepEqual(
    statuses.map((status) => daemons(crew, status)),
    [1, 0, 1],
  );
  assert.equal(sampleOf(found, 'coderd_provisionerd_num_daemons'), 2);
  assert.equal(sampleOf(found, 'coderd_provisionerd_jobs_current', { provisioner: 'terraform' }), 1);
  assert.equal(sampleOf(found, 'coderd_api_active_users_duration_hour'), 1);

  // and a tag set without jobs is not reported any more
  await failTaken(server, verifiedDaemon({ jobId: job!.id, workerId: plain.id, epoch: job!.acquire_epoch }), 'over');
  for (const tags of [UNTAGGED, gpu, gpu]) await failTaken(server, await takeJob(server, tags), 'over');
  const later = await scrape();
  assert.equal(sampleOf(later, 'coderd_provisioner_queue_depth', tagged), undefined);
  assert.equal(sampleOf(later, 'coderd_provisionerd_jobs_current', { provisioner: 'terraform' }), 0);
});

test('sums the tag sets beyond the hundredth', async () => {
  const { sql } = server.services;
  await sql`UPDATE provisioner_jobs SET completed_at = now() WHERE completed_at IS NULL`;
  const version = await pendingVersion(server);
  const copies = (from: number, to: number, age: string) => sql`
    INSERT INTO provisioner_jobs (organization_id, initiator_id, type, file_id, input, tags, created_at)
    SELECT organization_id, initiator_id, type, file_id, input,
      jsonb_build_object('scope', 'organization', 'owner', '', 'n', n::text), now() - ${age}::interval
    FROM provisioner_jobs, generate_series(${from}::int, ${to}::int) AS n WHERE id = ${version.job.id}`;
  // a hundred sets with two jobs each, and seven sets with one
  await copies(1, 107, '50 seconds');
  await copies(1, 100, '10 seconds');
  await failTaken(server, await takeJob(server), 'only copied');
  const found = await scrape();
  const depth = found.get('coderd_provisioner_queue_depth')!;
  assert.equal(depth.samples.length, 101);
  const other = { organization: 'coder', tags: 'other' };
  assert.equal(sampleOf(found, 'coderd_provisioner_queue_depth', other), 7);
  const oldest = sampleOf(found, 'coderd_provisioner_queue_oldest_seconds', other)!;
  assert.ok(oldest >= 50 && oldest < 150, String(oldest));
  assert.equal(found.get('coderd_provisioner_matching_idle')!.samples.length, 100);
  assert.match(depth.help, /100.*"?other/);
  await sql`DELETE FROM provisioner_jobs WHERE tags ? 'n'`;
});

test('equal tag sets have the same label, and different sets different labels', () => {
  const label = (text: string) => ({ text });
  assert.deepEqual(
    label(tagsLabel({ owner: '', scope: 'organization', b: '1', a: '2' })),
    label('a=2,b=1,scope=organization'),
  );
  assert.equal(tagsLabel({ scope: 'user', owner: 'me' }), 'owner=me,scope=user');
  const tricky: Record<string, string>[] = [
    { a: '1,b=2' },
    { a: '1', b: '2' },
    { 'a=1,b': '2' },
    { a: '1\\', b: '2' },
    { a: '1\\,b=2' },
  ];
  assert.equal(new Set(tricky.map((tags) => tagsLabel(tags))).size, tricky.length);
  const long = ['x', 'y'].map((end) => tagsLabel({ a: `${'l'.repeat(5_000)}${end}` }));
  assert.ok(long[0]!.length < 220 && long[0] !== long[1]);
});

test('an ended job is counted once, by the server that ended it', async () => {
  const env = { ...ON, CODER_PG_CONNECTION_URL: server.services.config.postgresUrl };
  const other = await startTestServer({ env, bare: true });
  try {
    const template = await createTestTemplate(server, 'counted');
    const made = await server.api<Workspace>('POST', '/users/me/workspaces', {
      body: { name: 'mine', template_id: template.id },
    });
    const versionName = made.body.latest_build.template_version_name;
    const own = await takeJob(server);
    await server.services
      .sql`UPDATE provisioner_jobs SET started_at = now() - interval '20 seconds' WHERE id = ${own.jobId}`;
    const at = (seconds: bigint) => ({ seconds, nanos: 0 });
    const timing = { state: TimingState.COMPLETED, stage: 'apply', source: 'x', action: 'create', resource: 'r' };
    const timings = [
      { ...timing, start: at(1_000n), end: at(1_002n) },
      { ...timing, start: at(1_001n), end: at(1_004n) },
      { ...timing, stage: 'plan', start: at(900n), end: at(901n) },
    ];
    const type = { case: 'workspaceBuild' as const, value: { timings } };
    await completeJob(other.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));

    const build = {
      workspace_transition: 'START',
      workspace_owner: 'admin',
      status: 'success',
      template_name: 'counted',
      template_version: versionName,
      workspace_name: 'mine',
    };
    const there = await eventually('the build is counted', async () => {
      const found = await scrape(other);
      return sampleOf(found, 'coderd_workspace_builds_total', build) === 1 && found;
    });
    const seconds = sampleOf(there, 'coderd_provisionerd_job_timings_seconds_sum', {
      provisioner: 'terraform',
      status: 'success',
    })!;
    assert.ok(seconds >= 20 && seconds < 60, String(seconds));
    const buildLabels = {
      template_name: 'counted',
      template_version: versionName,
      workspace_transition: 'START',
      status: 'success',
    };
    assert.equal(sampleOf(there, 'coderd_provisionerd_workspace_build_timings_seconds_count', buildLabels), 1);
    const stage = (name: string) =>
      sampleOf(there, 'coderd_provisioner_stage_seconds_sum', { stage: name, status: 'success' });
    assert.deepEqual([stage('apply'), stage('plan'), stage('init')], [4, 1, undefined]);
    const created = { organization_name: 'coder', template_name: 'counted', preset_name: '' };
    assert.equal(sampleOf(there, 'coderd_workspace_creation_total', created), 1);
    const creation = 'coderd_workspace_creation_duration_seconds_sum';
    assert.equal(sampleOf(there, creation, { ...created, type: 'regular' }), seconds);
    const waited = { provisioner_type: 'terraform', job_type: 'workspace_build', transition: 'start' };
    const waits = 'coderd_provisioner_job_queue_wait_seconds_count';
    assert.equal(sampleOf(there, waits, { ...waited, build_reason: 'initiator' }), 1);
    for (const [status, count] of Object.entries({ active: 1, dormant: 0, suspended: 0 })) {
      assert.equal(sampleOf(there, 'coderd_api_total_user_count', { status }), count, status);
    }
    assert.equal(sampleOf(there, 'coderd_api_workspace_latest_build', { status: 'succeeded' }), 1);
    assert.equal(sampleOf(there, 'coderd_api_workspace_latest_build', { status: 'failed' }), 0);

    // This server's own end arrives after the other server's. Once it is counted, this server has received both.
    const before = sampleOf(await scrape(), 'coderd_provisionerd_job_timings_seconds_count', {
      provisioner: 'terraform',
      status: 'failed',
    });
    await pendingVersion(server);
    await failTaken(server, await takeJob(server), 'broken');
    const here = await eventually('the failure is counted', async () => {
      const found = await scrape();
      const count = sampleOf(found, 'coderd_provisionerd_job_timings_seconds_count', {
        provisioner: 'terraform',
        status: 'failed',
      });
      return count === (before ?? 0) + 1 && found;
    });
    assert.equal(sampleOf(here, 'coderd_workspace_builds_total', build), undefined);
    assert.equal(sampleOf(here, 'coderd_api_workspace_latest_build', { status: 'succeeded' }), 1);

    // a build that never ran
    const stop = await server.api<{ job: { id: string } }>('POST', `/workspaces/${made.body.id}/builds`, {
      body: { transition: 'stop' },
    });
    const task = systemTask(systemContext(server.services, 'test'));
    await requestCancel(server.services, { task, job_id: stop.body.job.id });
    const canceled = { ...build, workspace_transition: 'STOP', status: 'canceled' };
    await eventually('the canceled build is counted', async () => {
      return sampleOf(await scrape(), 'coderd_workspace_builds_total', canceled) === 1;
    });
  } finally {
    await other.stop();
  }
});

test('does not count an end that was rolled back', async () => {
  const { services } = server;
  const registry = new Registry();
  const metrics = createJobMetrics(services, registry);
  try {
    await pendingVersion(server);
    const own = await takeJob(server);
    await assert.rejects(
      services.sql.begin(async (tx) => {
        await services.events.publish(tx, 'job_changed', { job_id: own.jobId, end: true });
        throw new Error('rolled back');
      }),
      /rolled back/,
    );
    await failTaken(server, own, 'in the end');
    const name = 'coderd_provisionerd_job_timings_seconds_count';
    const labels = { provisioner: 'terraform', status: 'failed' };
    await eventually('it is counted', async () => {
      return sampleOf(parseMetrics(await registry.metrics()), name, labels) === 1;
    });
    // the row counts, not the event: an "end" event for a running build is not counted
    const template = await createTestTemplate(server, 'running');
    await server.api('POST', '/users/me/workspaces', { body: { name: 'runs', template_id: template.id } });
    const running = await takeJob(server);
    await services.events.publish(services.sql, 'job_changed', { job_id: running.jobId, end: true });
    await pendingVersion(server);
    await failTaken(server, await takeJob(server), 'also');
    await eventually('the next is counted', async () => {
      return sampleOf(parseMetrics(await registry.metrics()), name, labels) === 2;
    });
    await failTaken(server, running, 'at last');
    const all = await eventually('each once', async () => {
      const found = parseMetrics(await registry.metrics());
      return sampleOf(found, name, labels) === 3 && found;
    });
    const builds = all.get('coderd_workspace_builds_total')!.samples;
    assert.deepEqual(
      builds.map(({ labels: { status, workspace_name }, value }) => [status, workspace_name, value]),
      [['failed', 'runs', 1]],
    );
  } finally {
    metrics.close();
  }
});

test('counts states that were not stored, by source and reason', async () => {
  const template = await createTestTemplate(server, 'rejected');
  await server.api('POST', '/users/me/workspaces', { body: { name: 'rejected', template_id: template.id } });
  const own = await takeJob(server);
  const registry = new Registry();
  const metrics = createJobMetrics(server.services, registry);
  try {
    const half = Buffer.from('{"version":4,"serial":1,"lin');
    for (let i = 0; i < 2; i++) {
      const report = { state: half, inFlight: [] };
      assert.ok(await checkpoint(server.services, own, report, metrics));
    }
    const families = parseMetrics(await registry.metrics());
    const labels = { source: 'checkpoint', reason: 'unparseable' };
    assert.equal(sampleOf(families, 'coderd_provisioner_states_refused_total', labels), 2);
  } finally {
    metrics.close();
    await failTaken(server, own, 'not needed');
  }
});

test('reports the waiting time of jobs by organization and type', async () => {
  const { services } = server;
  const registry = new Registry();
  const metrics = createJobMetrics(services, registry);
  try {
    const version = await pendingVersion(server);
    await services.sql`UPDATE provisioner_jobs SET created_at = now() - interval '40 seconds' WHERE id = ${version.job.id}`;
    const own = await takeJob(server);
    metrics.jobAcquired((await jobById(services.sql, own.jobId))!);
    const labels = { organization: 'coder', type: 'template_version_import' };
    const found = await eventually('the wait is counted', async () => {
      const families = parseMetrics(await registry.metrics());
      return sampleOf(families, 'coderd_provisioner_queue_wait_seconds_count', labels) === 1 && families;
    });
    const name = 'coderd_provisioner_queue_wait_seconds_bucket';
    assert.equal(sampleOf(found, name, { ...labels, le: '30' }), 0);
    assert.equal(sampleOf(found, name, { ...labels, le: '60' }), 1);
    await failTaken(server, own, 'not needed');
  } finally {
    metrics.close();
  }
});

test('without the database, reports the other metrics and the failure', async () => {
  const { sql } = server.services;
  const registry = new Registry();
  createDatabaseGauges(registry);
  for (const [name, { samples }] of parseMetrics(await registry.metrics())) assert.deepEqual(samples, [], name);
  const before = sampleOf(await scrape(), 'coderd_metrics_read_failures_total')!;
  await sql`ALTER TABLE provisioner_daemons RENAME TO away`;
  const found = await scrape().finally(() => sql`ALTER TABLE away RENAME TO provisioner_daemons`);
  assert.equal(sampleOf(found, 'coderd_metrics_read_failures_total'), before + 1);
  for (const name of [
    'coderd_provisioner_daemons',
    'coderd_provisionerd_num_daemons',
    'coderd_api_workspace_latest_build',
  ]) {
    assert.deepEqual(found.get(name)!.samples, [], name);
  }
  assert.equal(sampleOf(found, 'coderd_build_info', { version: server.services.version }), 1);
  assert.ok(sampleOf(await scrape(), 'coderd_provisionerd_num_daemons') !== undefined);
});

test('an address in use fails the start with an error and leaves nothing behind', async () => {
  const holder = createServer().listen(0, '127.0.0.1');
  await once(holder, 'listening');
  const { port } = holder.address() as { port: number };
  const CODER_PROMETHEUS_ADDRESS = `127.0.0.1:${port}`;
  try {
    const { config } = loadConfig({
      env: {
        ...ON,
        CODER_PROMETHEUS_ADDRESS,
        CODER_HTTP_ADDRESS: '127.0.0.1:0',
        CODER_PG_CONNECTION_URL: server.services.config.postgresUrl,
      },
    });
    await assert.rejects(
      startServer({
        config,
        configDir: server.configDir,
        log: silentLogger,
        daemonCommand: [],
        findBinary: async () => undefined,
        env: {},
      }),
      /Could not listen on 127\.0\.0\.1:\d+: another program uses this address\..*--prometheus-address/,
    );
    // no listener without the option
    const off = await startTestServer({ env: { CODER_PROMETHEUS_ADDRESS }, bare: true });
    assert.equal(off.metricsUrl, undefined);
    await off.stop();
  } finally {
    holder.close();
  }
});

test('reports the runs of background tasks', async () => {
  const found = await scrape();
  const task = 'lost jobs';
  assert.ok(sampleOf(found, 'coderd_background_task_runs_total', { task, outcome: 'succeeded' })! >= 1);
  assert.equal(sampleOf(found, 'coderd_background_task_runs_total', { task, outcome: 'failed' }), 0);
  assert.ok(sampleOf(found, 'coderd_background_task_duration_seconds', { task })! > 0);
  const lastRun = sampleOf(found, 'coderd_background_task_last_run_timestamp_seconds', { task })!;
  assert.ok(Math.abs(lastRun - Date.now() / 1_000) < 60, `${lastRun}`);
});
