import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { connect, type Sql } from '@ropewalk/server/db/connect';
import { gates, startGatedBuild } from './daemon-process.ts';
import {
  buildEnds,
  commandTemplate,
  createWorkspace,
  eventually,
  firstUser,
  makeTemplate,
  type ServerProcess,
  startCoderServer,
} from './harness.ts';

// An error of the database does not lose what Terraform has built.

let server: ServerProcess;
let sql: Sql;
const { gate, remove } = gates();
before(async () => {
  server = await startCoderServer({ env: { CODER_PROVISIONER_LEASE: '10s', CODER_PROVISIONER_DAEMONS: '3' } });
  await firstUser(server);
  sql = connect(server.databaseUrl!, { max: 1 });
});
after(async () => {
  await sql?.end();
  await server?.stop();
  remove();
});

/** The resources that the stored state of a build knows. */
async function known(buildId: string): Promise<string[]> {
  const { body } = await server.api<{ resources?: { name: string }[] }>('GET', `/workspacebuilds/${buildId}/state`);
  return (body.resources ?? []).map(({ name }) => name).sort();
}

async function assertKept(buildId: string): Promise<void> {
  const build = await buildEnds(server, buildId, 90_000);
  assert.equal(build.status, 'running', build.job.error ?? '');
  const names = await known(buildId);
  assert.ok(names.includes('machine') && names.includes('first'), names.join());
}

let template: string;
const CODES = ['40P01', '40001', '57014', '53200', '53300', '55P03', 'XX000', '58030', '25006', '0A000'];
for (const [when, condition] of [
  ['the result of a build', 'WHEN (OLD.completed_at IS NULL AND NEW.completed_at IS NOT NULL)'],
  ['the first report of a build', `WHEN (NEW.type = 'workspace_build' AND OLD.worker_id IS NOT NULL)`],
] as const) {
  test(`${when} fails once with each transient error: every build succeeds and its state is stored`, async () => {
    template ??= await makeTemplate(server, 'errors', commandTemplate('true'));
    for (const code of CODES) {
      // no rollback resets the sequence
      await sql.unsafe(`CREATE SEQUENCE faults;
        CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          IF nextval('faults') = 1 THEN RAISE EXCEPTION 'injected' USING ERRCODE = '${code}'; END IF;
          RETURN NEW;
        END $$;
        CREATE TRIGGER fault BEFORE UPDATE ON provisioner_jobs FOR EACH ROW ${condition} EXECUTE FUNCTION fault()`);
      try {
        const name = `e${code.toLowerCase()}${when.length}`;
        const workspace = await createWorkspace(server, template, name);
        await assertKept(workspace.latest_build.id);
        const [row] = await sql<{ is_called: boolean }[]>`SELECT is_called FROM faults`;
        assert.ok(row!.is_called, 'the fault has happened');
      } finally {
        await sql.unsafe('DROP TRIGGER fault ON provisioner_jobs; DROP FUNCTION fault; DROP SEQUENCE faults');
      }
    }
  });
}

test('a failover of 12 s, longer than the lease: the server is not ready, and the build that ends meanwhile succeeds', async () => {
  const held = gate('failover');
  const workspace = await startGatedBuild(server, held, 'failover');
  const ready = async () => (await fetch(`${server.url}/readyz`)).status;
  const database = new URL(server.databaseUrl!).pathname.slice(1);
  await sql`SET default_transaction_read_only = off`;
  const disconnect = () =>
    sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ${database} AND pid <> pg_backend_pid()`;
  await sql.unsafe(`ALTER DATABASE ${database} SET default_transaction_read_only = on`);
  await disconnect();
  held.open();
  const until = performance.now() + 12_000;
  await eventually('the server is not ready', async () => (await ready()) === 503);
  const { status, body } = await server.api<{ message: string }>('POST', `/workspaces/${workspace.id}/builds`, {
    transition: 'stop',
  });
  assert.equal(status, 503, JSON.stringify(body));
  while (performance.now() < until) {
    assert.equal(await ready(), 503);
    await delay(250);
  }
  // the connections stay, as behind a proxy
  await sql.unsafe(`ALTER DATABASE ${database} RESET default_transaction_read_only`);
  await eventually('the server is ready', async () => (await ready()) === 200);
  await assertKept(workspace.latest_build.id);
});
