import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Workspace, WorkspaceBuild } from '@ropewalk/contract';
import { connect, type Sql } from '@ropewalk/server/db/connect';
import { createTestTemplate, eventually, startTestServer, type TestServer } from '@ropewalk/testkit';
import { type ServerProcess, startCoderServer } from './harness.ts';

// A workspace is restarted, and the server is killed between the end of its stop and its start.

let filling: TestServer;
let templateId: string;
let direct: Sql;
const servers: ServerProcess[] = [];
/** The database role of each server, which shows whose connection waits. */
const ROLES = ['restart_first', 'restart_second'];
before(async () => {
  filling = await startTestServer();
  const { config } = filling.services;
  direct = connect(config.postgresUrl, { max: 3 });
  templateId = (await createTestTemplate(filling, 'base')).id;
  const password = crypto.randomUUID();
  const start = async (role: string) => {
    await direct.unsafe(`DROP ROLE IF EXISTS ${role}`);
    await direct.unsafe(`CREATE ROLE ${role} SUPERUSER LOGIN PASSWORD '${password}'`);
    const url = new URL(config.postgresUrl);
    url.username = role;
    url.password = password;
    const env = { CODER_PG_CONNECTION_URL: url.href, CODER_PROVISIONER_DAEMONS: '0' };
    const server = await startCoderServer({ env });
    server.token = filling.adminToken;
    return server;
  };
  servers.push(...(await Promise.all(ROLES.map(start))));
  // this process also makes starts: it must not do the work of the two
  await filling.close();
});
after(async () => {
  await direct.end({ timeout: 5 });
  for (const server of servers) await server.stop();
  await filling.stop();
});

/** Ends a build's job as succeeded. No server gets an event. */
const endJob = ({ job }: WorkspaceBuild) =>
  direct`UPDATE provisioner_jobs SET started_at = now(), completed_at = now() WHERE id = ${job.id}`;

/** A running workspace that stops to start again. Returns the stop build. */
async function stopping(server: ServerProcess, name: string): Promise<WorkspaceBuild> {
  const made = await server.api<Workspace>('POST', '/users/me/workspaces', { name, template_id: templateId });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  await endJob(made.body.latest_build);
  const asked = await server.api<WorkspaceBuild>('POST', `/workspaces/${made.body.id}/restart`, {});
  assert.deepEqual([asked.status, asked.body.transition], [201, 'stop'], JSON.stringify(asked.body));
  return asked.body;
}

const buildsOf = async ({ workspace_id: id }: WorkspaceBuild) =>
  (
    await direct<{ transition: string }[]>`
      SELECT transition FROM workspace_builds WHERE workspace_id = ${id} ORDER BY build_number`
  ).map(({ transition }) => transition);

/** The server whose transaction waits to insert a build. */
async function inserting(): Promise<ServerProcess | undefined> {
  const [row] = await direct<{ usename: string }[]>`SELECT usename FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock' AND query ILIKE '%INSERT INTO workspace_builds%'`;
  return row && servers[ROLES.indexOf(row.usename)];
}

/** The first test's restart, and the server that was killed. */
let handedOver: { stop: WorkspaceBuild; killed: ServerProcess };

test('another server makes the start of a server that is killed while it makes it, once', async () => {
  const stop = await stopping(servers[0]!, 'handed-over');
  let killed: ServerProcess | undefined;
  // builds cannot be inserted meanwhile: a server waits in its transaction, and the other one for the workspace
  await direct.begin(async (tx) => {
    await tx`LOCK TABLE workspace_builds IN SHARE ROW EXCLUSIVE MODE`;
    await endJob(stop);
    killed = await eventually('a server makes the start', inserting);
    await killed.kill();
  });
  await eventually('the start', async () => (await buildsOf(stop)).length > 2);
  assert.deepEqual(await buildsOf(stop), ['start', 'stop', 'start']);
  handedOver = { stop, killed: killed! };
});

test('a server that was down when the stop ended makes the start once it runs again', async () => {
  const { stop: earlier, killed } = handedOver;
  const other = servers.find((one) => one !== killed)!;
  const stop = await stopping(other, 'down');
  await other.kill();
  await endJob(stop);
  assert.deepEqual(await buildsOf(stop), ['start', 'stop']);
  await killed.restart();
  await eventually('the start', async () => (await buildsOf(stop)).length > 2);
  const [start] = await direct<{ username: string; automatic_error: string }[]>`
    SELECT u.username, w.automatic_error FROM workspace_builds b JOIN users u ON u.id = b.initiator_id
    JOIN workspaces w ON w.latest_build_id = b.id WHERE w.id = ${stop.workspace_id}`;
  assert.deepEqual({ ...start }, { username: 'admin', automatic_error: '' });
  // what it began before it was killed is not begun again
  for (const one of [earlier, stop]) assert.deepEqual(await buildsOf(one), ['start', 'stop', 'start']);
});
