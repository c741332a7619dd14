// The logs of agents of an old deployment: 1,000,000 lines. While they are purged, another request shows how long it waits.
import { createTestTemplate, fillWorkspaces, startTestServer, type TestServer } from '@ropewalk/testkit';
import { purgeAgentLogs } from '../packages/server/src/background/purge.ts';
import { percentile, type Row } from './measure.ts';

const LINES = 1_000_000;
const WORKSPACES = 500;
const REACH = 2;

async function fill(server: TestServer): Promise<void> {
  const { sql } = server.services;
  const template = await createTestTemplate(server, 'base');
  await fillWorkspaces(sql, template.id, WORKSPACES);
  await sql.begin(async (tx) => {
    await tx`SET LOCAL statement_timeout = 0`;
    await tx`UPDATE workspace_agents SET logs_length = 1, last_connected_at = now() - interval '30 days'`;
    // each first workspace's build becomes the earlier build of a second one, whose own build is the latest
    await tx`UPDATE workspace_builds SET build_number = 2`;
    await tx`UPDATE workspace_builds b SET build_number = 1, workspace_id = pair.second FROM (
      SELECT id AS first, lead(id) OVER (ORDER BY id) AS second, row_number() OVER (ORDER BY id) % 2 AS odd FROM workspaces) pair
      WHERE b.workspace_id = pair.first AND pair.odd = 1 AND pair.second IS NOT NULL`;
    await tx`INSERT INTO workspace_agent_logs (agent_id, log_source_id, output)
      SELECT a.id, a.id, repeat('line ' || n, 10) FROM (SELECT a.id, row_number() OVER () - 1 AS place, count(*) OVER () AS agents
        FROM workspace_agents a JOIN workspace_resources r ON r.id = a.resource_id
        JOIN workspace_builds b ON b.job_id = r.job_id WHERE b.build_number = 1) a JOIN generate_series(1, ${LINES}) n ON n % a.agents = a.place`;
  });
  await sql`VACUUM ANALYZE workspace_agent_logs`;
}

export async function benchPurge(): Promise<Row[]> {
  const server = await startTestServer();
  try {
    await fill(server);
    return [await besidePurge(server, 'old lines of agents', (signal) => purgeAgentLogs(server.services, signal))];
  } finally {
    await server.stop();
  }
}

/** The p99 of a request during a purge, over the p99 without one. */
export async function besidePurge(
  server: TestServer,
  what: string,
  start: (signal: AbortSignal) => Promise<number>,
): Promise<Row> {
  const measure = async (until: () => boolean): Promise<number> => {
    const took: number[] = [];
    while (!until()) {
      const started = performance.now();
      await server.api('GET', '/users/me');
      took.push(performance.now() - started);
    }
    return percentile(took, 0.99);
  };
  const begun = performance.now();
  const alone = await measure(() => performance.now() - begun > 3_000);
  const controller = new AbortController();
  let done = false;
  const purge = start(controller.signal).finally(() => {
    done = true;
  });
  const from = performance.now();
  const beside = await measure(() => done || performance.now() - from > 8_000);
  controller.abort();
  const count = await purge;
  const ratio = beside / alone;
  return {
    what: `p99 of GET /users/me while ${count.toLocaleString('en')} ${what} are purged`,
    ours: `${beside.toFixed(1)} ms`,
    floor: `${alone.toFixed(1)} ms`,
    figure: ratio.toFixed(2),
    reach: `≤ ${REACH} × without`,
    met: ratio <= REACH,
  };
}
