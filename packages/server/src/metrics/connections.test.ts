import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import {
  createTestTemplate,
  eventually,
  failTaken,
  pendingVersion,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { createDrpcClient } from '@ropewalk/wire/drpc';
import { Agent, Lifecycle_State } from '@ropewalk/wire/proto/agent';
import { byteStream } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import { zipSync } from 'fflate';
import { dialAgent, makeAgents } from '../rpc/testing/agents.ts';
import { parseMetrics, sampleOf } from './testing.ts';

const env = { CODER_PROMETHEUS_ENABLE: 'true', CODER_PROMETHEUS_ADDRESS: '127.0.0.1:0' };
let server: TestServer;
before(async () => {
  server = await startTestServer({ env });
});
after(() => server.stop());

const scrape = async ({ metricsUrl } = server) => parseMetrics(await (await fetch(`${metricsUrl}/metrics`)).text());

test('reports the events that servers send each other, and how long they take', async () => {
  const { sql, events } = server.services;
  const pubsub = async (name: string, labels: Record<string, string> = {}) =>
    sampleOf(await scrape(), `coder_pubsub_${name}`, labels);
  const before = await scrape();
  const count = (from: typeof before, name: string, labels: Record<string, string> = {}) =>
    sampleOf(from, `coder_pubsub_${name}`, labels)!;
  const [gone, arrived] = [
    count(before, 'publishes_total', { success: 'true' }),
    count(before, 'messages_total', { size: 'normal' }),
  ];
  const [sent, received] = [count(before, 'published_bytes_total'), count(before, 'received_bytes_total')];
  const listeners = count(before, 'current_subscribers');
  assert.ok(listeners > 0 && count(before, 'current_events') > 0);
  const stop = events.on('agent_reinit', () => {});
  await events.publish(sql, 'agent_logs', { agent_id: crypto.randomUUID() });
  const after = await eventually('the notification', async () => {
    const now = await scrape();
    return count(now, 'messages_total', { size: 'normal' }) > arrived ? now : undefined;
  });
  assert.ok(count(after, 'publishes_total', { success: 'true' }) > gone);
  assert.ok(count(after, 'published_bytes_total') > sent && count(after, 'received_bytes_total') > received);
  assert.equal(count(after, 'current_subscribers'), listeners + 1);
  assert.ok(count(after, 'subscribes_total', { success: 'true' }) > listeners);
  stop();
  assert.equal(await pubsub('current_subscribers'), listeners);
  await assert.rejects(
    sql.begin(async (tx) => {
      await tx`SELECT 1 / 0`.catch(() => {});
      await events.publish(tx, 'agent_logs', { agent_id: crypto.randomUUID() });
    }),
  );
  assert.equal(await pubsub('publishes_total', { success: 'false' }), 1);

  const timed = await eventually('a notification of the server to itself', async () => {
    const now = await scrape();
    // the notification can arrive before its statement ends
    const times = ['send_latency_seconds', 'receive_latency_seconds'];
    return times.every((name) => count(now, name) !== undefined) ? now : undefined;
  });
  for (const name of ['send_latency_seconds', 'receive_latency_seconds', 'latency_measures_total']) {
    assert.ok(count(timed, name) > 0, name);
  }
  assert.equal(count(timed, 'latency_measure_errs_total'), 0);
  assert.equal(count(timed, 'connected'), 1);
  assert.equal(count(timed, 'disconnections_total'), 0);
  // the database ends the connection that listens
  await sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND query ILIKE 'listen%' AND pid <> pg_backend_pid()`;
  await eventually('the next connection', async () => ((await pubsub('disconnections_total')) ?? 0) > 0);
});

test('times the first connection of each agent', async () => {
  const name = 'coderd_agents_first_connection_seconds';
  const labels = { template_name: 'timed', agent_name: 'a0' };
  const { agents } = await makeAgents(server, await createTestTemplate(server, 'timed'), 'fresh');
  const [agent] = agents;
  for (let n = 0; n < 2; n++) {
    const connection = await dialAgent(server, agent!.token);
    await eventually('the first connection', async () => sampleOf(await scrape(), `${name}_count`, labels) === 1);
    connection.close();
    await connection.closed;
  }
  const found = await scrape();
  assert.equal(sampleOf(found, `${name}_count`, labels), 1);
  assert.ok(sampleOf(found, `${name}_sum`, labels)! < 60);
});

const { STARTING, READY, START_ERROR } = Lifecycle_State;
const BUILD_DURATION = 'coderd_template_workspace_build_duration_seconds';

/**
 * Connects as an agent whose clock is ahead by so many ms. Returns a function that reports states one after the other.
 */
async function reporter(token: string, { to = server, aheadMs = 0 } = {}) {
  const session = new YamuxSession(byteStream(await dialAgent(to, token)), { role: 'client' });
  const rpc = createDrpcClient(Agent, () => session.openStream());
  return async (...states: Lifecycle_State[]) => {
    for (const state of states) {
      const changedAt = timestampFromDate(new Date(Date.now() + aheadMs));
      await rpc.updateLifecycle({ lifecycle: { state, changedAt } });
    }
  };
}

test('times a build until its last agent has started, once', async () => {
  const name = BUILD_DURATION;
  const { agents } = await makeAgents(server, await createTestTemplate(server, 'built'), 'built', { count: 2 });
  const labels = { template_name: 'built', organization_name: 'coder', transition: 'start', is_prebuild: 'false' };
  const counted = async (status: string) => sampleOf(await scrape(), `${name}_count`, { ...labels, status });
  const [first, second] = await Promise.all([reporter(agents[0]!.token), reporter(agents[1]!.token)]);
  await first(STARTING, READY);
  await second(STARTING, START_ERROR);
  await eventually('the build is timed', async () => (await counted('error')) === 1);
  // an agent that repeats its report, and one that starts again later
  await second(START_ERROR);
  await server.services.sql`UPDATE workspace_agents SET first_connected_at = first_connected_at - interval '1 hour'
    WHERE id = ${agents[0]!.id}`;
  await (await reporter(agents[0]!.token))(STARTING, READY);
  // the next build is counted after them
  const other = await makeAgents(server, await createTestTemplate(server, 'later'), 'later');
  await (await reporter(other.agents[0]!.token))(STARTING, READY);
  const later = { ...labels, template_name: 'later', status: 'success' };
  await eventually('the next build is timed', async () => sampleOf(await scrape(), `${name}_count`, later) === 1);
  assert.deepEqual([await counted('error'), await counted('success')], [1, undefined]);
  assert.ok(sampleOf(await scrape(), `${name}_sum`, later)! < 60);
});

test('counts a build once if its agents start at the same time', async () => {
  const { agents } = await makeAgents(server, await createTestTemplate(server, 'pair'), 'pair', { count: 4 });
  const reporters = await Promise.all(agents.map(({ token }) => reporter(token)));
  await Promise.all(reporters.map((report) => report(STARTING)));
  await Promise.all(reporters.map((report) => report(READY)));
  // the next build is counted after them
  const after = await makeAgents(server, await createTestTemplate(server, 'after'), 'after');
  await (await reporter(after.agents[0]!.token))(STARTING, READY);
  const count = async (template: string) =>
    sampleOf(await scrape(), `${BUILD_DURATION}_count`, {
      ...{ template_name: template, organization_name: 'coder', transition: 'start' },
      ...{ status: 'success', is_prebuild: 'false' },
    });
  await eventually('the next build is timed', async () => (await count('after')) === 1);
  assert.equal(await count('pair'), 1);
});

test('several servers count a build once together', async () => {
  const other = await startTestServer({ joins: server, env });
  try {
    const { agents } = await makeAgents(server, await createTestTemplate(server, 'shared'), 'shared', { count: 4 });
    const reporters = await Promise.all(agents.map(({ token }, n) => reporter(token, { to: n % 2 ? other : server })));
    await Promise.all(reporters.map((report) => report(STARTING)));
    await Promise.all(reporters.map((report) => report(READY)));
    const count = async (template: string, at: TestServer) =>
      sampleOf(await scrape(at), `${BUILD_DURATION}_count`, {
        ...{ template_name: template, organization_name: 'coder', transition: 'start' },
        ...{ status: 'success', is_prebuild: 'false' },
      }) ?? 0;
    const together = async () => (await count('shared', server)) + (await count('shared', other));
    await eventually('the build is timed', async () => (await together()) > 0);
    // agents that connect to another server repeat their reports
    await Promise.all(
      agents.map(async ({ token }, n) => (await reporter(token, { to: n % 2 ? server : other }))(STARTING, READY)),
    );
    // the next builds are counted after them
    for (const [name, to] of Object.entries({ 'after-one': server, 'after-other': other })) {
      const next = await makeAgents(server, await createTestTemplate(server, name), name);
      await (await reporter(next.agents[0]!.token, { to }))(STARTING, READY);
      await eventually('the next build is timed', async () => (await count(name, to)) === 1);
    }
    assert.equal(await together(), 1);
  } finally {
    await other.stop();
  }
});

for (const [clock, aheadMs] of [
  ['ahead', 90_000],
  ['behind', -3_600_000],
] as const)
  test(`times a build by the clock of the database if an agent's is ${clock}`, async () => {
    const { workspace, agents } = await makeAgents(server, await createTestTemplate(server, clock), clock);
    const { sql } = server.services;
    await sql`UPDATE workspace_builds SET created_at = now() - interval '100 s' WHERE workspace_id = ${workspace.id}`;
    await (await reporter(agents[0]!.token, { aheadMs }))(STARTING, READY);
    const labels = { template_name: clock, organization_name: 'coder', transition: 'start', status: 'success' };
    const sum = await eventually('the build is timed', async () =>
      sampleOf(await scrape(), `${BUILD_DURATION}_sum`, { ...labels, is_prebuild: 'false' }),
    );
    assert.ok(sum >= 100 && sum < 160, `${sum}`);
  });

test('counts requests that are too large by their reason', async () => {
  const name = 'coderd_api_requests_too_large_total';
  const upload = async (type: string, body: Uint8Array) => {
    const headers = { 'content-type': type, 'coder-session-token': server.adminToken };
    const { status } = await fetch(`${server.url}/api/v2/files`, { method: 'POST', headers, body: Buffer.from(body) });
    return status;
  };
  const labels = { method: 'POST', path: '/api/v2/files' };
  const counted = (from: Awaited<ReturnType<typeof scrape>>) =>
    ['request_body', 'other'].map((reason) => sampleOf(from, name, { ...labels, reason }));
  assert.deepEqual(counted(await scrape()), [undefined, undefined]);
  const bomb = zipSync({ 'main.tf': new Uint8Array(101 * 1024 * 1024) }, { level: 1 });
  assert.equal(await upload('application/zip', bomb), 413);
  assert.deepEqual(counted(await scrape()), [undefined, 1]);
  assert.equal(await upload('application/x-tar', new Uint8Array(101 * 1024 * 1024)), 413);
  await eventually('both are counted', async () => {
    const [body, other] = counted(await scrape());
    return body === 1 && other === 1;
  });
  // before anyone has signed in
  const anonymous = await server.api('POST', '/users/login', { token: null, body: { email: 'x'.repeat(300_000) } });
  assert.equal(anonymous.status, 413);
  const login = { method: 'POST', path: '/api/v2/users/login', reason: 'request_body' };
  assert.equal(sampleOf(await scrape(), name, login), 1);
});

/** Opens a WebSocket that answers nothing by itself. */
async function dialSilently(path: string) {
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
  socket.write(
    `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nCoder-Session-Token: ${server.adminToken}\r\nUpgrade: websocket\r\n` +
      'Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
  );
  const [answer] = (await once(socket, 'data')) as [Buffer];
  assert.match(answer.toString('latin1'), /^HTTP\/1.1 101 /);
  return socket.resume();
}

test('counts how pings of WebSockets end, by route', async (t) => {
  const pattern = '/api/v2/templateversions/{templateversion}/logs';
  const path = `${pattern.replace('{templateversion}', (await pendingVersion(server)).id)}?follow`;
  const counted = async (result: string) =>
    sampleOf(await scrape(), 'coderd_api_websocket_probes_total', { path: pattern, result });
  const becomes = (result: string, count: number) =>
    eventually(`${count} times ${result}`, async () => (await counted(result)) === count);
  const pingMs = 15_000;
  t.mock.timers.enable({ apis: ['setInterval'] });
  const live = new WebSocket(`${server.url.replace('http', 'ws')}${path}&coder_session_token=${server.adminToken}`);
  await once(live, 'open');
  for (const times of [1, 2]) {
    t.mock.timers.tick(pingMs);
    await becomes('ok', times);
  }
  live.close();
  await once(live, 'close');

  const [silent, leaving, broken] = [await dialSilently(path), await dialSilently(path), await dialSilently(path)];
  t.mock.timers.tick(pingMs);
  // an empty close frame, masked
  leaving.write(Buffer.from([0x88, 0x80, 0, 0, 0, 0]));
  broken.destroy();
  await becomes('peer_closed', 1);
  await becomes('error', 1);
  assert.equal(await counted('timeout'), undefined);
  for (let n = 0; n < 4; n++) t.mock.timers.tick(pingMs);
  await once(silent, 'close');
  await becomes('timeout', 1);

  const closed = await dialSilently(path);
  t.mock.timers.tick(pingMs);
  await failTaken(server, await takeJob(server), 'the log ends');
  await becomes('canceled', 1);
  closed.destroy();
  const all = ['ok', 'timeout', 'peer_closed', 'canceled', 'error'];
  assert.deepEqual(await Promise.all(all.map(counted)), [2, 1, 1, 1, 1]);
});
