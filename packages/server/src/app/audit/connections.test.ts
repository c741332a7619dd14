import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ConnectionLog, ConnectionLogResponse, Response } from '@ropewalk/contract';
import {
  createTestTemplate,
  eventually,
  holdTask,
  insertPerson,
  startTestServer,
  startTestWorkspace,
  type TestServer,
  type TestWorkspace,
  takeJob,
} from '@ropewalk/testkit';
import { createDrpcClient } from '@ropewalk/wire/drpc';
import { Agent, Connection_Action, Connection_Type, Lifecycle_State } from '@ropewalk/wire/proto/agent';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { connectResumable } from '@ropewalk/wire/resume/client';
import { byteStream, dialWebSocket } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import ssh2 from 'ssh2';
import { lostConnectionsTask } from '../../background/lost-connections.ts';
import { startTestApp, type TestApp } from '../../http/apps/testing/app.ts';
import { ask } from '../../http/apps/testing/ask.ts';
import { dialAgent, makeAgents } from '../../rpc/testing/agents.ts';
import { completeJob } from '../job/complete.ts';

let server: TestServer;
let app: TestApp;
let dev: TestWorkspace;
before(async () => {
  [server, app] = await Promise.all([
    startTestServer({ env: { CODER_DANGEROUS_ALLOW_PATH_APP_SHARING: 'true' } }),
    startTestApp(),
  ]);
  const apps = [{ slug: 'web', url: `http://localhost:${app.port}`, sharingLevel: 2 }];
  dev = await startTestWorkspace(server, 'dev', { agent: { apps: apps as never } });
});
after(async () => {
  await dev.stop();
  await app.close();
  await server.stop();
});

async function find(q = ''): Promise<ConnectionLogResponse> {
  const path = `/connectionlog?limit=50&q=${encodeURIComponent(q)}`;
  const { status, body } = await server.api<ConnectionLogResponse>('GET', path);
  assert.equal(status, 200, JSON.stringify(body));
  return body;
}
/** The latest entry, once the agent has reported its end and the server has added who connected. */
const ended = (type: string) =>
  eventually(`the end of ${type}`, async () => {
    const [entry] = (await find(`type:${type} status:completed`)).connection_logs;
    return entry?.user_agent ? entry : undefined;
  });

async function tunnel(path: string, agentId = dev.agentId) {
  const { connection } = await dialWebSocket(`${server.url}/api/v2/workspaceagents/${agentId}/${path}`, {
    headers: { 'Coder-Session-Token': server.adminToken, 'User-Agent': 'the test' },
  });
  return byteStream(connection);
}

/** A tunnel whose session outlives its connections, as the command line opens it. */
const session = (path: string, agentId = dev.agentId) =>
  connectResumable({ dial: (kind) => tunnel(`${path}&resume=${kind}`, agentId), mayRetry: () => false });

/** What every entry of this test has in common. */
function assertPlace(entry: ConnectionLog): void {
  const { workspace_name, workspace_owner_username, agent_name, ip, user, user_agent, organization } = entry;
  assert.deepEqual(
    [workspace_name, workspace_owner_username, agent_name, ip, organization.name],
    ['dev', 'admin', 'main', '127.0.0.1', 'coder'],
  );
  assert.deepEqual([user?.username, user_agent], ['admin', 'the test']);
}

test('records an SSH session with its person, address, end and exit code as one entry', async () => {
  const client = new ssh2.Client();
  client.connect({ sock: (await tunnel('tunnel?service=ssh')) as never, username: 'coder', password: '' });
  await once(client, 'ready');
  const { connection_logs: open } = await eventually('the entry', async () => {
    const found = await find('type:ssh status:ongoing');
    return found.connection_logs.length > 0 && found;
  });
  assert.equal(open[0]!.disconnect_time, undefined);
  const code = await new Promise<number>((resolve, reject) => {
    client.exec('exit 3', (err, channel) => (err ? reject(err) : channel.on('exit', resolve).resume()));
  });
  assert.equal(code, 3);
  client.end();
  // the server records the end of the tunnel, and the agent the exit code
  const entry = await eventually('the end and the exit code', async () => {
    const [found] = (await find('type:ssh')).connection_logs;
    return found?.ssh_info?.disconnect_time !== undefined && found.ssh_info.exit_code === 3 && found;
  });
  assertPlace(entry);
  assert.equal((await find('type:ssh')).count, 1);
  assert.equal(entry.id, open[0]!.id);
  assert.ok(Date.parse(entry.ssh_info!.disconnect_time!) >= Date.parse(entry.connect_time));
  const same = await find(`connection_id:${entry.ssh_info!.connection_id}`);
  assert.deepEqual([same.count, same.connection_logs[0]!.id], [1, entry.id]);
});

test('records terminals and forwarded ports with their end', async () => {
  const terminal = await tunnel(`pty?reconnect=${crypto.randomUUID()}&command=true`);
  terminal.resume();
  const shell = await ended('reconnecting_pty');
  assertPlace(shell);
  assert.equal(shell.web_info, undefined);
  const port = await tunnel(`tunnel?service=tcp&port=${app.port}`);
  port.end('GET / HTTP/1.0\r\n\r\n');
  port.resume();
  const forwarded = await ended('port_forwarding');
  assertPlace(forwarded);
  assert.deepEqual(forwarded.web_info && [forwarded.web_info.slug_or_port, forwarded.web_info.user?.username], [
    String(app.port),
    'admin',
  ]);
});

test('records who opened an app, once an hour', async () => {
  const path = '/@admin/dev.main/apps/web/';
  const headers = { 'Coder-Session-Token': server.adminToken, 'User-Agent': 'the test' };
  for (let i = 0; i < 3; i++) assert.equal((await ask(server.url, { path, headers })).status, 200);
  assert.equal((await ask(server.url, { path, headers: { 'User-Agent': 'a visitor' } })).status, 200);
  const { connection_logs: opened } = await eventually('both entries', async () => {
    const found = await find('type:workspace_app');
    return found.connection_logs.length >= 2 && found;
  });
  assert.equal(opened.length, 2);
  const [visitor, own] = opened.toSorted((a, b) => a.user_agent!.localeCompare(b.user_agent!));
  assert.deepEqual([visitor!.user, visitor!.web_info!.user, visitor!.user_agent], [undefined, undefined, 'a visitor']);
  assertPlace(own!);
  assert.deepEqual([own!.web_info!.slug_or_port, own!.web_info!.status_code], ['web', 200]);
});

test('filters by every documented key, and shows organizations’ auditors their own', async () => {
  const { count } = await find();
  const [{ connect_time: newest } = { connect_time: '' }] = (await find()).connection_logs;
  for (const q of [
    'organization:coder',
    'workspace_owner:admin',
    'workspace_owner:me',
    'workspace_owner_email:admin@example.com',
    `workspace_id:${dev.workspace.id}`,
    'connected_after:2001-01-01T00:00:00Z',
    `connected_before:${new Date(Date.parse(newest) + 1_000).toISOString()}`,
  ]) {
    assert.equal((await find(q)).count, count, q);
  }
  for (const q of ['username:me', 'username:admin', 'user_email:admin@example.com']) {
    assert.equal((await find(q)).count, count - 1, q);
  }
  for (const q of ['username:nobody', 'type:vscode', 'connected_before:2001-01-01T00:00:00Z']) {
    assert.deepEqual(await find(q), { connection_logs: [], count: 0, count_cap: 10_000 }, q);
  }
  for (const q of ['type:telepathy', 'status:broken', 'connected_after:soon', 'dev', 'colour:red']) {
    const answer = await server.api<Response>('GET', `/connectionlog?q=${q}`);
    assert.equal(answer.status, 400, q);
    assert.ok(answer.body.validations?.[0]?.detail);
  }
  const local = await insertPerson(server, 'loc');
  await server.api('PUT', '/organizations/default/members/loc/roles', { body: { roles: ['organization-auditor'] } });
  const seen = await server.api<ConnectionLogResponse>('GET', '/connectionlog', { token: local.token });
  assert.equal(seen.body.count, count);
  const lines = await server.api<string>('GET', '/connectionlog/export?q=type:ssh', { token: local.token });
  assert.equal(lines.status, 200);
  const { body } = lines as { body: unknown };
  const [line] =
    typeof body === 'string'
      ? body
          .trimEnd()
          .split('\n')
          .map((text) => JSON.parse(text))
      : [body];
  assert.equal((line as ConnectionLog).type, 'ssh');
});

test('records a tunnel that was not permitted, with its end and the reason', async () => {
  // may see every workspace, and open none
  const helper = await insertPerson(server, 'helper', ['template-admin']);
  for (const path of ['tunnel?service=ssh', `tunnel?service=tcp&port=${app.port}`]) {
    const { status } = await server.api('GET', `/workspaceagents/${dev.agentId}/${path}`, { token: helper.token });
    assert.equal(status, 403);
  }
  const { connection_logs: denied } = await eventually('both entries', async () => {
    const found = await find('username:helper');
    return found.connection_logs.length === 2 && found;
  });
  const [port, ssh] = denied.toSorted((a, b) => a.type.localeCompare(b.type));
  assert.deepEqual([ssh!.type, ssh!.ssh_info!.disconnect_reason], ['ssh', 'Rejected: not permitted.']);
  assert.equal(Date.parse(ssh!.ssh_info!.disconnect_time!), Date.parse(ssh!.connect_time));
  assert.deepEqual([port!.web_info!.status_code, port!.web_info!.slug_or_port], [403, String(app.port)]);
});

test('records the end of sessions in which nobody opened a shell', async () => {
  const { count } = await find();
  const port = await session(`tunnel?service=tcp&port=${app.port}`);
  port.end('GET / HTTP/1.0\r\n\r\n');
  port.resume();
  const client = new ssh2.Client();
  client.connect({ sock: (await session('tunnel?service=ssh')) as never, username: 'coder', password: '' });
  await once(client, 'ready');
  client.end();
  const latest = await eventually('their ends', async () => {
    const found = await find();
    const two = found.connection_logs.slice(0, 2);
    const recorded = two.every((entry) => entry.user_agent);
    return found.count === count + 2 && recorded && (await find('status:ongoing')).count === 0 && two;
  });
  const [forwarded, ssh] = latest.toSorted((a, b) => a.type.localeCompare(b.type));
  assertPlace(ssh!);
  assertPlace(forwarded!);
  assert.deepEqual([ssh!.type, forwarded!.type], ['ssh', 'port_forwarding']);
  assert.deepEqual([forwarded!.web_info!.slug_or_port, forwarded!.web_info!.status_code], [String(app.port), 101]);
});

test('records all sessions of one connection as one entry, until the connection ends', async () => {
  const { count } = await find('type:ssh status:completed');
  const client = new ssh2.Client();
  client.connect({ sock: (await session('tunnel?service=ssh')) as never, username: 'coder', password: '' });
  await once(client, 'ready');
  const run = async (command: string) => {
    const channel = await promisify<string, ssh2.ClientChannel>(client.exec.bind(client))(command);
    channel.resume();
    await once(channel, 'close');
  };
  await run('exit 3');
  await run('exit 4');
  // a later connection's report comes after theirs
  const other = new ssh2.Client();
  other.connect({ sock: (await session('tunnel?service=ssh')) as never, username: 'coder', password: '' });
  await once(other, 'ready');
  other.end();
  await eventually('the end of the other', async () => (await find('type:ssh status:completed')).count === count + 1);
  assert.equal((await find('status:ongoing')).count, 1, 'the connection is still open');
  client.end();
  await eventually('its end', async () => (await find('status:ongoing')).count === 0);
  const latest = await eventually('the exit code of its last session', async () => {
    const found = await find('type:ssh');
    return found.connection_logs.slice(0, 2).some(({ ssh_info: info }) => info!.exit_code === 4) && found;
  });
  assert.equal(latest.count, count + 2);
  for (const entry of latest.connection_logs.slice(0, 2)) assertPlace(entry);
});

test('marks what only an agent reports, and keeps its time, address and number within limits', async () => {
  const template = await createTestTemplate(server, 'forger');
  const { workspace, agents } = await makeAgents(server, template, 'forger');
  const connection = await dialAgent(server, agents[0]!.token, { ours: false });
  const wire = new YamuxSession(byteStream(connection), { role: 'client' });
  const rpc = createDrpcClient(Agent, () => wire.openStream());
  const report = (more: object) =>
    rpc.reportConnection({
      connection: { id: randomBytes(16), action: Connection_Action.DISCONNECT, type: Connection_Type.SSH, ...more },
    });
  const before = new Date('2001-02-03T04:05:06Z');
  await report({ timestamp: timestampFromDate(before), ip: '203.0.113.9' });
  const [old] = (await find(`workspace_id:${workspace.id}`)).connection_logs;
  assert.deepEqual([old!.reported_by_agent, old!.ip], [true, '203.0.113.9']);
  assert.ok(new Date(old!.connect_time) >= new Date(workspace.created_at), old!.connect_time);
  await report({ ip: "the admin's laptop" });
  const [odd] = (await find(`workspace_id:${workspace.id}`)).connection_logs;
  assert.equal(odd!.ip, undefined);
  for (let n = 0; n < 35; n++) await Promise.all(Array.from({ length: 20 }, () => report({ ip: '198.51.100.1' })));
  const { count } = await find(`workspace_id:${workspace.id}`);
  assert.ok(count >= 600 && count < 690, `${count} entries`);
  // the server saw these itself
  const { connection_logs: own } = await find(`workspace_id:${dev.workspace.id}`);
  assert.ok(own.length > 0);
  for (const entry of own) if (entry.user) assert.equal(entry.reported_by_agent, undefined);
  await wire.close();
});

test('ends the entries of sessions whose agent or workspace went away', async (t) => {
  t.after(await holdTask(server, 'lost connections'));
  const lost = await startTestWorkspace(server, 'lost');
  const { id } = lost.workspace;
  const { sql } = server.services;
  const task = lostConnectionsTask(server.services);
  const look = () => task.run(AbortSignal.timeout(10_000));
  // its first run ends nothing: while no server ran, nobody marked agents as connected
  await look();
  const open = async () => {
    // the list shows the agent as connected a moment before it takes sessions again
    const stream = await eventually('a session', () =>
      session('tunnel?service=ssh', lost.agentId).catch(() => undefined),
    );
    stream.on('error', () => {});
    return eventually('the entry', async () => (await find(`workspace_id:${id} status:ongoing`)).connection_logs[0]);
  };
  const reason = async (entry: ConnectionLog) => {
    const all = (await find(`workspace_id:${id}`)).connection_logs;
    return all.find((each) => each.id === entry.id)!.ssh_info!.disconnect_reason;
  };
  const row = async (entry: string) => (await sql`SELECT * FROM connection_logs WHERE id = ${entry}`)[0]!;
  try {
    const first = await open();
    await look();
    assert.equal(await reason(first), undefined, 'an open session stays open');
    // the next process of the agent, which here has no host key
    await sql`UPDATE workspace_agents SET ssh_host_key = '' WHERE id = ${lost.agentId}`;
    const { connection } = await dialWebSocket(`${server.url}/api/v2/workspaceagents/me/rpc?version=2.6`, {
      headers: { Cookie: `coder_session_token=${lost.token}` },
    });
    const yamux = new YamuxSession(byteStream(connection), { role: 'client', keepAlive: false });
    const rpc = createDrpcClient(Agent, () => yamux.openStream());
    // a session can begin before the agent's first report
    const early = randomUUID();
    await sql`INSERT INTO connection_logs ${sql({ ...(await row(first.id)), id: early, connection_id: early, connect_time: new Date() } as never)}`;
    await rpc.updateLifecycle({ lifecycle: { state: Lifecycle_State.STARTING } });
    assert.equal(await reason(first), 'The agent was restarted.');
    assert.equal((await row(early))['disconnect_time'], null);
    await sql`DELETE FROM connection_logs WHERE id = ${early}`;
    await yamux.close();
    await eventually('the agent is back', async () => (await lost.look()).status === 'connected');

    const second = await open();
    await lost.agent.stop();
    await eventually('the agent is gone', async () => (await lost.look()).status === 'disconnected');
    // as if it had been killed before it could report the end
    const reopen = () =>
      sql`UPDATE connection_logs SET disconnect_time = NULL, disconnect_reason = NULL WHERE id = ${second.id}`;
    await reopen();
    await look();
    assert.equal(await reason(second), undefined, 'its agent may come back');
    await sql`UPDATE workspace_agents SET disconnected_at = now() - interval '3 minutes',
      last_connected_at = now() - interval '4 minutes' WHERE id = ${lost.agentId}`;
    // while the database is away, each run fails. The first run afterwards waits for the agents to be marked again
    let away = false;
    let ms = 0;
    const sometimes = new Proxy(sql, {
      apply(query, self, args) {
        if (away) throw new Error('the database is away');
        return Reflect.apply(query as never, self, args);
      },
    });
    const clock = { ...server.services.clock, monotonic: () => ms };
    const other = lostConnectionsTask({ ...server.services, sql: sometimes, clock });
    const later = () => {
      ms += other.periodMs;
      return other.run(AbortSignal.timeout(10_000));
    };
    await later();
    away = true;
    for (let run = 0; run < 5; run++) await assert.rejects(later(), /away/);
    away = false;
    await later();
    assert.equal(await reason(second), undefined, 'the agents are not marked yet');
    await look();
    assert.equal(await reason(second), 'The agent disconnected.');

    await sql`UPDATE workspace_agents SET disconnected_at = now(), last_connected_at = now() WHERE id = ${lost.agentId}`;
    await reopen();
    const body = { transition: 'stop' };
    assert.equal((await server.api('POST', `/workspaces/${id}/builds`, { body })).status, 201);
    const own = await takeJob(server);
    const type = { case: 'workspaceBuild' as const, value: { resources: [] } };
    await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
    await look();
    assert.equal(await reason(second), 'The workspace was stopped.');
    assert.equal((await find('status:ongoing')).count, 0);
  } finally {
    await lost.stop();
  }
});
