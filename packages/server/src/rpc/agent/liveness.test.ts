import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { Workspace } from '@ropewalk/contract';
import { createTestTemplate, eventually, startTestServer, type TestServer, takeJob } from '@ropewalk/testkit';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { completeJob } from '../../app/job/complete.ts';
import { connectedAgent } from '../../authz/proofs.ts';
import type { Sql } from '../../db/connect.ts';
import { countConnections, markAgentsAlive } from '../../db/queries/agents.ts';
import { type LiveAgent, startAgentLiveness } from './liveness.ts';

const TRAITS = { reachable: true, version: '2.6', capabilities: [], replicaId: crypto.randomUUID() };

async function count(id: string): Promise<number> {
  const [number] = await countConnections(server.services.sql, [
    { agent: connectedAgent({ id }), traits: TRAITS, hostKey: '' },
  ]);
  return number!;
}

const EVERY_MS = 300;
const AGENTS = 40;
let server: TestServer;
let workspace: Workspace;
let ids: string[];
before(async () => {
  server = await startTestServer();
  const template = await createTestTemplate(server, 'many');
  const made = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name: 'many', template_id: template.id },
  });
  workspace = made.body;
  const own = await takeJob(server);
  const agents = Array.from({ length: AGENTS }, (_, n) => ({
    name: `a${n}`,
    operatingSystem: 'linux',
    architecture: 'amd64',
    auth: { case: 'token' as const, value: crypto.randomUUID() },
  }));
  const type = { case: 'workspaceBuild' as const, value: { resources: [{ name: 'machine', type: 'vm', agents }] } };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
  const rows = await server.services.sql<{ id: string }[]>`SELECT id FROM workspace_agents`;
  ids = rows.map(({ id }) => id);
});
after(() => server.stop());

/** Counts statements. `down` makes each fail like an unreachable database. */
function watchedSql(sql: Sql) {
  const state = { statements: 0, down: false };
  const watched = new Proxy(sql, {
    apply(target, self, args: Parameters<Sql>) {
      const isStatement = Array.isArray(args[0]) && 'raw' in args[0];
      // the same call builds fragments. A statement begins with a verb
      const text = isStatement ? String((args[0] as unknown as string[])[0]).trimStart() : '';
      if (/^(WITH|UPDATE|SELECT|INSERT)/.test(text)) {
        state.statements++;
        if (state.down) return Promise.reject(new Error('the database is away'));
      }
      return Reflect.apply(target, self, args);
    },
  });
  return { sql: watched, state };
}

test('uses one statement for all agents, ends a silent connection, and survives an outage of the database', async () => {
  const { sql, state } = watchedSql(server.services.sql);
  const closed = new Set<string>();
  const silent = ids[0]!;
  const liveness = startAgentLiveness(
    { ...server.services, sql },
    {
      everyMs: EVERY_MS,
      networkOf: (id, ms) => (ms === undefined ? undefined : { node: id, home: 1, latencies: { 1: ms } }),
    },
  );
  const agents = await Promise.all(
    ids.map(
      async (id): Promise<LiveAgent> => ({
        agent: connectedAgent({ id }),
        number: await count(id),
        workspaceId: workspace.id,
        ownerId: workspace.owner_id,
        ping: () => (id === silent ? new Promise(() => {}) : Promise.resolve(1)),
        close: () => void closed.add(id),
      }),
    ),
  );
  const connected = async () => {
    const [row] = await server.services.sql<{ n: number }[]>`SELECT count(*) AS n FROM workspace_agents
      WHERE id = ANY(${ids}) AND first_connected_at IS NOT NULL AND disconnected_at IS NULL`;
    return row!.n;
  };
  await Promise.all(agents.map((agent) => liveness.arrived(agent)));
  assert.equal(await connected(), AGENTS);
  assert.ok(state.statements <= 3, `${state.statements} statements for ${AGENTS} that came at the same time`);

  state.statements = 0;
  const from = performance.now();
  await eventually('the silent one is ended', async () => closed.size > 0);
  assert.deepEqual([...closed], [silent]);
  const measured = await server.services.sql<{ id: string; network: unknown }[]>`
    SELECT id, network FROM workspace_agents WHERE network IS NOT NULL`;
  assert.equal(measured.length, AGENTS - 1);
  for (const { id, network } of measured) assert.deepEqual(network, { node: id, home: 1, latencies: { 1: 1 } });
  const ticks = Math.ceil((performance.now() - from) / EVERY_MS) + 1;
  assert.ok(state.statements <= ticks, `${state.statements} statements in ${ticks} intervals`);

  state.down = true;
  await liveness.gone(agents[0]!, true);
  await liveness.gone(agents[1]!, true);
  assert.equal(await connected(), AGENTS, 'nothing could be noted');
  state.down = false;
  await eventually('who went meanwhile is noted', async () => (await connected()) === AGENTS - 2);
  assert.equal(closed.size, 1, 'an outage ends no connection');

  // a newer connection, on whichever server, ends the one here
  await count(ids[2]!);
  await eventually('the older one is ended', async () => closed.has(ids[2]!));
  assert.equal(closed.size, 2);
  await liveness.close();
});

test('stores a beat without waiting for the disk, and the number of a connection with the wait', async () => {
  const { sql } = server.services;
  await sql`CREATE TABLE commits (waits text)`;
  await sql.unsafe(`CREATE FUNCTION store_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO commits VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$`);
  await sql`CREATE CONSTRAINT TRIGGER store_commit AFTER UPDATE ON workspace_agents DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION store_commit()`;
  const agent = connectedAgent({ id: ids[5]! });
  const number = await count(agent.id);
  assert.deepEqual([...(await markAgentsAlive(sql, [{ agent, number, network: undefined }]))], []);
  const rows = await sql<{ waits: string }[]>`SELECT waits FROM commits`;
  assert.deepEqual(
    rows.map(({ waits }) => waits),
    ['on', 'off'],
  );
  await sql`DROP TRIGGER store_commit ON workspace_agents`;
});
