import { silentLogger } from '@ropewalk/kit';
import { connect } from '@ropewalk/server/db/connect';
import { createEvents } from '@ropewalk/server/db/events';
import { startBalancer } from '../e2e/balancer.ts';
import {
  ensureExecutable,
  eventually,
  firstUser,
  freePort,
  makeTemplate,
  type ServerProcess,
  startCoderServer,
} from '../e2e/harness.ts';
import { AGENTS } from './agents.ts';
import { median, paired, percentile, processesBelow, type Row } from './measure.ts';
import { readyWorkspace } from './ready-workspace.ts';
import { load } from './requests.ts';
import { startCrowd } from './scale/crowd.ts';
import { insertWorkspaces } from './scale/population.ts';
import { fetchBytes, roundTrip, startPart } from './traffic.ts';
import { forward } from './tunnels.ts';

const MIB = 1024 * 1024;
const BULK = 512 * MIB;
const ROUND_TRIPS = 2_000;
const EVENTS_PER_S = 1_000;
const EVENT_SECONDS = 10;
/** Between two batches of events, in ms. */
const BATCH_MS = 20;

interface Servers {
  all: ServerProcess[];
  stop(): Promise<void>;
}

/**
 * Servers of one deployment, which reach each other directly, or of one deployment each. Agents use the first one, unless
 * `env` says otherwise.
 */
async function startServers(
  count: number,
  env: NodeJS.ProcessEnv = {},
  deployments: 'one' | 'one each' = 'one',
): Promise<Servers> {
  const all: ServerProcess[] = [];
  for (let n = 0; n < count; n += 1) {
    const port = await freePort();
    const first = deployments === 'one' ? all[0] : undefined;
    const address = `http://127.0.0.1:${port}`;
    const own = {
      CODER_VERBOSE: 'false',
      CODER_ACCESS_URL: first?.url ?? address,
      CODER_DERP_SERVER_RELAY_URL: address,
    };
    all.push(await startCoderServer({ port, env: { ...own, ...env }, ...(first ? { joins: first } : {}) }));
  }
  return {
    all,
    async stop() {
      for (const server of all.toReversed()) await server.stop();
    },
  };
}

/** The processor time of the servers' own processes, in ms. */
const processorTime = (servers: ServerProcess[]) =>
  servers
    .map(({ child }) => processesBelow(child.pid!).find(({ pid }) => pid === child.pid)!.own)
    .reduce((sum, own) => sum + own, 0);

/** A forwarded port by a server that does not have the agent, compared with the one that has it. */
async function benchTunnel(): Promise<Row[]> {
  const { all, stop } = await startServers(2, { CODER_PROVISIONER_DAEMONS: '1' });
  const [near, far] = all as [ServerProcess, ServerProcess];
  const [source, echo] = [await startPart('source'), await startPart('echo')];
  const children = [source.child, echo.child];
  try {
    await readyWorkspace(near);
    far.token = near.token;
    const ports: Record<string, number> = {};
    for (const [name, server, part] of [
      ['nearBulk', near, source],
      ['farBulk', far, source],
      ['nearEcho', near, echo],
      ['farEcho', far, echo],
    ] as const) {
      const { port, child } = await forward(server, server.url, part.port);
      ports[name] = port;
      children.push(child);
    }
    const bulk = await paired(
      7,
      () => fetchBytes(ports['farBulk']!, BULK),
      () => fetchBytes(ports['nearBulk']!, BULK),
    );
    const trip = await paired(
      5,
      () => roundTrip(ports['farEcho']!, ROUND_TRIPS),
      () => roundTrip(ports['nearEcho']!, ROUND_TRIPS),
    );
    const speed = (ms: number) => `${(BULK / MIB / (ms / 1_000)).toFixed(0)} MiB/s`;
    const more = trip.ours - trip.floor;
    return [
      {
        what: `port-forward of ${BULK / MIB} MiB through two servers, compared with one`,
        ours: speed(bulk.ours),
        floor: speed(bulk.floor),
        figure: `${(1 / bulk.ratio).toFixed(2)}×`,
        reach: '≥ 0.6×',
        met: 1 / bulk.ratio >= 0.6,
      },
      {
        what: 'round trip through two servers, compared with one',
        ours: `${trip.ours.toFixed(2)} ms`,
        floor: `${trip.floor.toFixed(2)} ms`,
        figure: `${more.toFixed(2)} ms more`,
        reach: '≤ 1 ms more',
        met: more <= 1,
      },
    ];
  } finally {
    for (const child of children) child.kill();
    await stop();
  }
}

/** Requests per second of the servers' processor time, while each server gets as many as it can answer. */
async function requestsPerProcessorSecond(servers: ServerProcess[]): Promise<number> {
  const before = processorTime(servers);
  const began = performance.now();
  const rates = await Promise.all(servers.map(({ url, token }) => load(`${url}/api/v2/workspaces?limit=25`, token)));
  const requests = (rates.reduce((sum, rate) => sum + rate, 0) * (performance.now() - began)) / 1_000;
  return (requests / (processorTime(servers) - before)) * 1_000;
}

/**
 * Three servers of one deployment compared with three that know nothing of each other. Both share this machine's
 * processors in the same way, which a comparison with one server alone does not: three servers with less than a processor
 * each answer fewer requests per turn.
 */
async function benchRequestsOfThree(): Promise<Row> {
  const env = { CODER_PROVISIONER_DAEMONS: '1' };
  const joined = await startServers(3, env);
  const unrelated = await startServers(3, env, 'one each');
  try {
    const [first, ...others] = joined.all;
    await firstUser(first!);
    for (const server of others) server.token = first!.token;
    for (const server of unrelated.all) await firstUser(server);
    const { ours, floor, ratio } = await paired(
      9,
      () => requestsPerProcessorSecond(joined.all),
      () => requestsPerProcessorSecond(unrelated.all),
      { warmUp: 3 },
    );
    return {
      what: 'GET /workspaces per processor second, 3 servers of one deployment compared with 3 deployments',
      ours: `${ours.toFixed(0)}/s`,
      floor: `${floor.toFixed(0)}/s`,
      figure: `${ratio.toFixed(2)}×`,
      reach: '≥ 0.9×',
      met: ratio >= 0.9,
    };
  } finally {
    await unrelated.stop();
    await joined.stop();
  }
}

/** Agents of a server that is killed, until all are connected to another one. */
async function benchTakeover(): Promise<Row> {
  const balancer = await startBalancer();
  const { all, stop } = await startServers(2, { CODER_ACCESS_URL: balancer.url, CODER_PROVISIONER_DAEMONS: '1' });
  const [survivor, victim] = all as [ServerProcess, ServerProcess];
  const sql = connect(survivor.databaseUrl!, { max: 1 });
  try {
    await firstUser(survivor);
    const template = await makeTemplate(survivor, 'crowd', { 'main.tf': 'resource "terraform_data" "x" {}' });
    const machines = await insertWorkspaces(sql, template, { count: AGENTS });
    const tokens = machines.map(({ token }) => token);
    balancer.use(victim);
    const crowd = await startCrowd({ url: balancer.url, tokens, metadataMs: 10_000, again: true });
    const killed = performance.now();
    await victim.kill();
    balancer.use(survivor);
    await eventually('all agents are connected again', () => crowd.again() >= AGENTS, 120_000);
    const seconds = (performance.now() - killed) / 1_000;
    const [row] = await sql<{ connected: number }[]>`
      SELECT count(*)::int AS connected FROM workspace_agents WHERE disconnected_at IS NULL AND last_connected_at > now() - interval '2 minutes'`;
    if (row!.connected !== AGENTS) throw new Error(`${row!.connected} of ${AGENTS} agents are seen as connected`);
    await crowd.stop();
    return {
      what: `${AGENTS} agents of a killed server, until all have reported to the other one`,
      ours: `${seconds.toFixed(1)} s`,
      floor: '–',
      figure: `${seconds.toFixed(1)} s`,
      reach: '≤ 10 s',
      met: seconds <= 10,
    };
  } finally {
    await sql.end();
    await stop();
    balancer.close();
  }
}

/** Events that all servers read: how late they are, and what they cost each server. */
async function benchNotify(): Promise<Row[]> {
  const { all, stop } = await startServers(3, { CODER_PROVISIONER_DAEMONS: '1' });
  const sql = connect(all[0]!.databaseUrl!, { max: 2 });
  const events = await createEvents(sql, silentLogger);
  try {
    const took: number[] = [];
    let received = () => {};
    const sent = new Map<string, number>();
    events.on('job_changed', ({ job_id: id }) => {
      const at = sent.get(id);
      if (at === undefined) return;
      took.push(performance.now() - at);
      sent.delete(id);
      if (sent.size === 0) received();
    });
    const send = async (count: number) => {
      await Promise.all(
        Array.from({ length: count }, () => {
          const id = crypto.randomUUID();
          sent.set(id, performance.now());
          return events.publish(sql, 'job_changed', { job_id: id, logs: true });
        }),
      );
    };
    const before = processorTime(all);
    const began = performance.now();
    for (let n = 0; n < (EVENT_SECONDS * 1_000) / BATCH_MS; n += 1) {
      await send((EVENTS_PER_S * BATCH_MS) / 1_000);
      await new Promise((done) => setTimeout(done, Math.max(began + (n + 1) * BATCH_MS - performance.now(), 1)));
    }
    const seconds = (performance.now() - began) / 1_000;
    if (sent.size > 0) await new Promise<void>((resolve) => (received = resolve));
    const share = (processorTime(all) - before) / all.length / seconds / 10;
    const rate = took.length / seconds;
    return [
      {
        what: `${EVENTS_PER_S} events per second to 3 servers, from the publishing to the receipt, p99`,
        ours: `${percentile(took, 0.99).toFixed(1)} ms`,
        floor: '–',
        figure: `p50 ${median(took).toFixed(1)} ms, ${rate.toFixed(0)}/s`,
        reach: '≤ 50 ms',
        met: percentile(took, 0.99) <= 50 && rate >= EVENTS_PER_S * 0.95,
      },
      {
        what: '… processor of each server',
        ours: `${share.toFixed(1)} %`,
        floor: '–',
        figure: `${share.toFixed(1)} %`,
        reach: '≤ 10 %',
        met: share <= 10,
      },
    ];
  } finally {
    await events.close();
    await sql.end();
    await stop();
  }
}

/** Several servers on one database. */
export async function benchServers(): Promise<Row[]> {
  await ensureExecutable();
  return [...(await benchTunnel()), await benchRequestsOfThree(), await benchTakeover(), ...(await benchNotify())];
}
