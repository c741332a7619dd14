import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { Workspace } from '@ropewalk/contract';
import { createTestTemplate, eventually, startTestServer, type TestServer, takeJob } from '@ropewalk/testkit';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { type ConnectedAgent, connectedAgent } from '../../authz/proofs.ts';
import { isPgError, NOT_IN_REPERTOIRE, UNTRANSLATABLE_CHARACTER } from '../../db/connect.ts';
import { agentById, countConnections, type NewConnection } from '../../db/queries/agents.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import { completeJob } from '../job/complete.ts';
import { createAgentWrites } from './writes.ts';

const AGENTS = 6;
const AT = new Date('2026-01-02T03:04:05.000Z');

let server: TestServer;
let agents: ConnectedAgent<AgentIdentity>[];
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

let workspaces = 0;
/** New agents, with an app and a script each, in the order of their ids. */
beforeEach(async () => {
  const { services } = server;
  const name = `writes-${++workspaces}`;
  const template = await createTestTemplate(server, name);
  const body = { name, template_id: template.id };
  const { body: made } = await server.api<Workspace>('POST', '/users/me/workspaces', { body });
  const own = await takeJob(server);
  const declared = Array.from({ length: AGENTS }, (_, n) => ({
    name: `a${n}`,
    operatingSystem: 'linux',
    architecture: 'amd64',
    auth: { case: 'token' as const, value: crypto.randomUUID() },
    apps: [{ slug: `app-${n}`, url: 'http://localhost', healthcheck: { url: 'http://localhost', interval: 5 } }],
    scripts: [{ displayName: 'Start', script: 'true', runOnStart: true }],
  }));
  const resources = [{ name: 'machine', type: 'vm', agents: declared }];
  const type = { case: 'workspaceBuild' as const, value: { resources } };
  await completeJob(services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
  const rows = await services.sql<{ id: string }[]>`SELECT a.id FROM workspace_agents a
    JOIN workspace_resources r ON r.id = a.resource_id JOIN workspace_builds b ON b.job_id = r.job_id
    WHERE b.workspace_id = ${made.id} ORDER BY a.id`;
  agents = await Promise.all(rows.map(async ({ id }) => connectedAgent((await agentById(services.sql, id))!)));
});

const current = async (n: number) => (await agentById(server.services.sql, agents[n]!.id))!;

const newConnection = (n: number, hostKey = ''): NewConnection => ({
  agent: agents[n]!,
  traits: { reachable: true, version: '2.6', capabilities: ['tunnel/1', 'resume/1'], replicaId: crypto.randomUUID() },
  hostKey,
});

/** The transactions that wrote while `run` ran, in a database that no other test uses. */
async function transactions(run: () => Promise<unknown>): Promise<number> {
  const { sql } = server.services;
  const next = async () => {
    const [row] = await sql<{ next: number }[]>`SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next`;
    return row!.next;
  };
  const from = await next();
  await run();
  return (await next()) - from;
}

test('numbers the connections of agents together, and those of one agent in their order', async () => {
  const writes = createAgentWrites(server.services.sql);
  const all = [...agents.keys(), 0, 0].map((n) => writes.connection(newConnection(n)));
  assert.deepEqual(await Promise.all(all), [1, 1, 1, 1, 1, 1, 2, 3]);
  const { connection_number: number, capabilities } = (await current(0)) as AgentIdentity & {
    connection_number: number;
  };
  assert.equal(number, 3);
  assert.deepEqual(capabilities, ['tunnel/1', 'resume/1']);
  await writes.close();
});

test('stores the first host key of an agent, and rejects another one without failing other agents', async () => {
  const writes = createAgentWrites(server.services.sql);
  const connect = (n: number, hostKey: string) => writes.connection(newConnection(n, hostKey));
  assert.equal(await connect(0, 'a2V5'), 1);
  assert.deepEqual(await Promise.all([connect(0, 'b3RoZXI='), connect(1, 'a2V5'), connect(2, '')]), [undefined, 1, 1]);
  assert.deepEqual(await Promise.all([connect(0, ''), connect(1, 'a2V5'), connect(2, 'a2V5')]), [undefined, 2, 2]);
  assert.equal((await current(0)).ssh_host_key, 'a2V5');
  assert.equal((await current(2)).ssh_host_key, 'a2V5');
  await writes.close();
});

test('writes the start of many agents in few transactions', async () => {
  const writes = createAgentWrites(server.services.sql);
  const spent = await transactions(() =>
    Promise.all(
      agents.map(async (agent) => {
        await writes.startup({ agent, version: 'v2', expandedDirectory: '/home', subsystems: ['envbox', 'exectrace'] });
        await writes.lifecycle({ agent, state: 'starting', at: AT });
        await writes.lifecycle({ agent, state: 'ready', at: AT });
      }),
    ),
  );
  // other parts of the server write now and then
  assert.ok(spent < AGENTS * 2, `${spent} transactions for ${AGENTS} agents`);
  for (const n of agents.keys()) {
    const { version, expanded_directory: folder, subsystems, lifecycle_state: state } = await current(n);
    assert.deepEqual([version, folder, state], ['v2', '/home', 'ready']);
    assert.deepEqual(subsystems, ['envbox', 'exectrace']);
  }
  await writes.close();
});

test('writes the states of one agent in their order', async () => {
  const writes = createAgentWrites(server.services.sql);
  const [agent] = agents as [ConnectedAgent<AgentIdentity>];
  const at = (seconds: number) => new Date(AT.getTime() + seconds * 1_000);
  const states = ['starting', 'start_error', 'shutting_down', 'off'] as const;
  await Promise.all(states.map((state, n) => writes.lifecycle({ agent, state, at: at(n) })));
  const { lifecycle_state: state, started_at: started, ready_at: ready } = await current(0);
  assert.deepEqual([state, started, ready], ['off', at(0), at(1)]);
  await writes.lifecycle({ agent, state: 'starting', at: at(9) });
  const again = await current(0);
  assert.deepEqual([again.started_at, again.ready_at], [at(9), null]);
  await writes.close();
});

test('a report that the database rejects, and that of a deleted agent, do not fail those of other agents', async () => {
  const { sql } = server.services;
  const writes = createAgentWrites(sql);
  await sql`DELETE FROM workspace_agents WHERE id = ${agents[1]!.id}`;
  const texts = ['v1', 'v1', 'v\0', 'v1'];
  const results = await Promise.allSettled(
    texts.map((version, n) => writes.startup({ agent: agents[n]!, version, expandedDirectory: '', subsystems: [] })),
  );
  assert.deepEqual(
    results.map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'rejected', 'fulfilled'],
  );
  const { reason } = results[2] as PromiseRejectedResult;
  assert.ok(isPgError(reason, UNTRANSLATABLE_CHARACTER) || isPgError(reason, NOT_IN_REPERTOIRE), String(reason));
  assert.deepEqual([(await current(0)).version, (await current(3)).version], ['v1', 'v1']);
  await Promise.all([0, 1].map((n) => writes.lifecycle({ agent: agents[n]!, state: 'ready', at: AT })));
  assert.equal((await current(0)).lifecycle_state, 'ready');
  assert.deepEqual(await Promise.all([1, 0].map((n) => writes.connection(newConnection(n)))), [undefined, 1]);
  await writes.close();
});

test('a start ends the earlier sessions of its agent alone', async () => {
  const { sql } = server.services;
  const writes = createAgentWrites(sql);
  const open = async (n: number, at: Date) => {
    const { organization_id, owner_id, workspace_id, workspace_name, name } = agents[n]!;
    const id = crypto.randomUUID();
    await sql`INSERT INTO connection_logs ${sql({ id, connect_time: at, organization_id, workspace_owner_id: owner_id, workspace_id, workspace_name, agent_name: name, type: 'ssh', ip: '', connection_id: id })}`;
    return id;
  };
  const before = new Date(AT.getTime() - 1);
  const ids = [await open(0, before), await open(0, AT), await open(1, before), await open(2, before)];
  await Promise.all([
    writes.lifecycle({ agent: agents[0]!, state: 'starting', at: AT, endSessionsBefore: AT }),
    writes.lifecycle({ agent: agents[1]!, state: 'ready', at: AT }),
  ]);
  const ended = await sql<{ id: string }[]>`SELECT id FROM connection_logs
    WHERE id = ANY(${ids}) AND disconnect_reason = 'The agent was restarted.' AND disconnect_time IS NOT NULL`;
  assert.deepEqual(
    ended.map(({ id }) => id),
    [ids[0]],
  );
  await writes.close();
});

test('stores the health of apps, and says whose changed', async () => {
  const { sql } = server.services;
  const writes = createAgentWrites(sql);
  const apps = await sql<{ id: string; agent_id: string }[]>`SELECT id, agent_id FROM workspace_apps`;
  const appOf = (n: number) => apps.find((app) => app.agent_id === agents[n]!.id)!.id;
  const report = (n: number, app: number) =>
    writes.appHealths({ agent: agents[n]!, healths: [{ id: appOf(app), health: 'healthy' }] });
  assert.deepEqual(await Promise.all([report(0, 0), report(1, 1), report(2, 3)]), [true, true, false]);
  assert.deepEqual(await Promise.all([report(0, 0), report(3, 3)]), [false, true]);
  await writes.close();
});

test('keeps the newest 200 runs of a script, and ignores those of scripts of other agents', async () => {
  const { sql } = server.services;
  const writes = createAgentWrites(sql);
  const scripts = await sql<{ id: string; workspace_agent_id: string }[]>`
    SELECT id, workspace_agent_id FROM workspace_agent_scripts`;
  const scriptOf = (n: number) => scripts.find((script) => script.workspace_agent_id === agents[n]!.id)!.id;
  const run = (n: number, script: number, second: number) => {
    const at = new Date(AT.getTime() + second * 1_000);
    return {
      agent: agents[n]!,
      scriptId: scriptOf(script),
      start: at,
      end: at,
      exitCode: 1,
      stage: 'start',
      status: 'ok',
    };
  };
  await sql`INSERT INTO workspace_agent_script_timings (script_id, started_at, ended_at, exit_code, stage, status)
    SELECT ${scriptOf(0)}, ${AT}::timestamptz - n * interval '1 second', ${AT}, 0, 'start', 'ok' FROM generate_series(1, 200) n`;
  await Promise.all([
    writes.scriptTiming(run(0, 0, 0)),
    writes.scriptTiming(run(0, 0, 1)),
    writes.scriptTiming(run(1, 1, 0)),
    writes.scriptTiming(run(2, 1, 0)),
  ]);
  const found = await sql<{ n: number; oldest: Date; fresh: number }[]>`SELECT count(*) AS n, min(started_at) AS oldest,
      count(*) FILTER (WHERE exit_code = 1) AS fresh
    FROM workspace_agent_script_timings WHERE script_id = ANY(${[scriptOf(0), scriptOf(1)]})
    GROUP BY script_id ORDER BY n`;
  assert.deepEqual(
    [...found],
    [
      { n: 1, oldest: AT, fresh: 1 },
      { n: 200, oldest: new Date(AT.getTime() - 198_000), fresh: 2 },
    ],
  );
  await writes.close();
});

test('writes what waits when the server stops', async () => {
  const writes = createAgentWrites(server.services.sql);
  const reports = ['starting', 'ready'].map((state) =>
    writes.lifecycle({ agent: agents[0]!, state: state as 'starting' | 'ready', at: AT }),
  );
  await writes.close();
  assert.equal((await current(0)).lifecycle_state, 'ready');
  await Promise.all(reports);
});

test('locks agents in the order of their ids, so that statements about the same agents never deadlock', async () => {
  const { sql } = server.services;
  const [lowest, highest] = [agents[0]!.id, agents.at(-1)!.id];
  const blocked = Promise.withResolvers<void>();
  const hasLock = Promise.withResolvers<void>();
  const blocker = sql.begin(async (tx) => {
    await tx`SELECT FROM workspace_agents WHERE id = ${lowest} FOR UPDATE`;
    hasLock.resolve();
    await blocked.promise;
  });
  await hasLock.promise;
  const counting = countConnections(
    sql,
    [...agents.keys()].toReversed().map((n) => newConnection(n)),
  );
  await eventually('it waits for the lowest', async () => {
    const [row] = await sql<{ n: number }[]>`SELECT count(*) AS n FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'UPDATE workspace_agents a%'`;
    return row!.n === 1;
  });
  const free = await sql`SELECT FROM workspace_agents WHERE id = ${highest} FOR UPDATE SKIP LOCKED`;
  blocked.resolve();
  await blocker;
  assert.deepEqual(await counting, [1, 1, 1, 1, 1, 1]);
  assert.equal(free.length, 1);
});
