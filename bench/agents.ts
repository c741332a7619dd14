import { connect, type Sql } from '@ropewalk/server/db/connect';
import { freshDatabase } from '@ropewalk/testkit/postgres';
import { firstUser, makeTemplate, type ServerProcess, startCoderServer } from '../e2e/harness.ts';
import { countStatements, type StatementCounter } from './count-statements.ts';
import { percentile, pssMegabytes, type Row } from './measure.ts';
import { type Crowd, startCrowd } from './scale/crowd.ts';
import { insertWorkspaces, KEYS } from './scale/population.ts';

export const AGENTS = 2_000;
/** Upstream's agents report their values every ten seconds. */
const METADATA_MS = 10_000;
const WINDOW_MS = 60_000;
const PSS_EVERY_MS = 1_000;
const SAMPLES = 600;

/** A server with its own database and the workspaces of the crowd, whose agents have not connected yet. */
interface Place {
  server: ServerProcess;
  sql: Sql;
  counter: StatementCounter;
  tokens: string[];
  stop(): Promise<void>;
}

async function startPlace(): Promise<Place> {
  const database = await freshDatabase();
  const counter = await countStatements(database.url);
  const server = await startCoderServer({
    env: { CODER_PG_CONNECTION_URL: counter.url, CODER_VERBOSE: 'false', CODER_PROVISIONER_DAEMONS: '1' },
  });
  const sql = connect(database.url, { max: 1 });
  await firstUser(server);
  const template = await makeTemplate(server, 'crowd', { 'main.tf': 'resource "terraform_data" "x" {}' });
  const machines = await insertWorkspaces(sql, template, { count: AGENTS });
  return {
    server,
    sql,
    counter,
    tokens: machines.map(({ token }) => token),
    async stop() {
      await sql.end();
      await server.stop();
      counter.close();
      await database.drop();
    },
  };
}

const pause = (ms: number) => new Promise((done) => setTimeout(done, ms));

/** Sends the same read to both servers in turn, at an even pace, so that a busy machine slows both. */
async function latencies(path: string, places: Place[]): Promise<number[][]> {
  const took = places.map((): number[] => []);
  for (let i = 0; i < SAMPLES; i++) {
    for (const [at, { server }] of places.entries()) {
      const started = performance.now();
      const { status } = await server.api('GET', path);
      if (status !== 200) throw new Error(`${path} answered ${status}`);
      took[at]!.push(performance.now() - started);
      await pause(5);
    }
  }
  return took;
}

/** Two thousand agents at one server. The other server has the same rows and no agents. */
export async function benchAgents(): Promise<Row[]> {
  const loaded = await startPlace();
  const idle = await startPlace();
  let crowd: Crowd | undefined;
  let peak = 0;
  const look = setInterval(() => {
    peak = Math.max(peak, pssMegabytes(loaded.server.child.pid!));
  }, PSS_EVERY_MS);
  try {
    crowd = await startCrowd({ url: loaded.server.url, tokens: loaded.tokens, metadataMs: METADATA_MS });
    const others = idle.counter.count();
    const before = loaded.counter.count();
    await pause(WINDOW_MS);
    const spent = loaded.counter.count() - before - (idle.counter.count() - others);
    const each = (spent / AGENTS) * (60_000 / WINDOW_MS);
    const rows: Row[] = [
      {
        what: `${AGENTS} agents connect at the same time, until all have reported their start`,
        ours: `${(crowd.ms / 1_000).toFixed(1)} s`,
        floor: '–',
        figure: `${crowd.retries} tried again`,
        reach: 'all',
        met: true,
      },
      {
        what: `${AGENTS} agents, database statements per idle agent and minute`,
        ours: each.toFixed(3),
        floor: '–',
        figure: each.toFixed(3),
        reach: '≤ 1',
        met: each <= 1,
      },
    ];
    for (const path of ['/users/me', '/workspaces?limit=25']) {
      await latencies(path, [loaded, idle]);
      const [ours, floor] = (await latencies(path, [loaded, idle])).map((took) => percentile(took, 0.99));
      rows.push({
        what: `GET ${path}, p99, with ${AGENTS} agents`,
        ours: `${ours!.toFixed(1)} ms`,
        floor: `${floor!.toFixed(1)} ms`,
        figure: `${(ours! / floor!).toFixed(2)}×`,
        reach: '≤ 2×',
        met: ours! <= floor! * 2,
      });
    }
    const [row] = await loaded.sql<{ connected: number; fresh: number }[]>`SELECT
      count(*) FILTER (WHERE last_connected_at > now() - interval '30 seconds' AND disconnected_at IS NULL) AS connected,
      (SELECT count(*) FROM workspace_agent_metadata WHERE collected_at > now() - interval '60 seconds') AS fresh
      FROM workspace_agents`;
    if (crowd.lost.length > 0) throw new Error(`${crowd.lost.length} agents were lost: ${crowd.lost[0]}`);
    if (row!.connected !== AGENTS) throw new Error(`${row!.connected} of ${AGENTS} agents are seen as connected`);
    if (row!.fresh !== AGENTS * KEYS) throw new Error(`${row!.fresh} of ${AGENTS * KEYS} values are fresh`);
    peak = Math.max(peak, pssMegabytes(loaded.server.child.pid!));
    rows.push({
      what: 'server process meanwhile, at its highest (PSS)',
      ours: `${peak.toFixed(0)} MB`,
      floor: '–',
      figure: `${peak.toFixed(0)} MB`,
      reach: '≤ 600 MB',
      met: peak <= 600,
    });
    return rows;
  } finally {
    clearInterval(look);
    await crowd?.stop();
    await loaded.stop();
    await idle.stop();
  }
}
