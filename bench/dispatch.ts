import { Agent, request } from 'node:http';
import { writeTar } from '@ropewalk/server/app/evaluate/archive';
import { connect, type Sql } from '@ropewalk/server/db/connect';
import { freshDatabase } from '@ropewalk/testkit/postgres';
import { firstUser, type ServerProcess, startCoderServer } from '../e2e/harness.ts';
import { median, pssMegabytes, type Row } from './measure.ts';
import { startDaemons } from './scale/daemons.ts';

const PSK = 'bench pre-shared key';
/** (a) and (c): rounds at both servers, and jobs in each round. */
const ROUNDS = 5;
const JOBS_PER_ROUND = 100;
const QUEUED = 10_000;
/** (b) */
const DAEMONS = 1_000;
const TAG_SETS = 50;
const JOBS = 2_000;
const POSTS_AT_ONCE = 24;
const PSS_EVERY_MS = 250;
const TEMPLATE_BYTES = 4_096;

/** Measures how jobs reach daemons: the server's own process, a real PostgreSQL, and daemons in another process. */
export async function benchDispatch(): Promise<Row[]> {
  return [...(await oneDaemon()), ...(await manyDaemons())];
}

/** A server with its own database. */
interface Place {
  server: ServerProcess;
  sql: Sql;
  post: Post;
  stop(): Promise<void>;
}

async function startPlace(): Promise<Place> {
  const database = await freshDatabase();
  const server = await startCoderServer({
    env: {
      CODER_PG_CONNECTION_URL: database.url,
      CODER_VERBOSE: 'false',
      CODER_PROVISIONER_DAEMONS: '0',
      CODER_PROVISIONER_DAEMON_PSK: PSK,
    },
  });
  const sql = connect(database.url, { max: 2 });
  await firstUser(server);
  return {
    server,
    sql,
    post: await poster(server, sql),
    async stop() {
      await sql.end();
      await server.stop();
      await database.drop();
    },
  };
}

type Post = (tags: Record<string, string>) => Promise<void>;

/** Posts versions of one template, with one uploaded archive. */
async function poster(server: ServerProcess, sql: Sql): Promise<Post> {
  const text = '# a template of four kilobytes\n'.repeat(TEMPLATE_BYTES).slice(0, TEMPLATE_BYTES);
  const tar = await writeTar([{ path: 'main.tf', data: Buffer.from(text), mode: 0o644 }]);
  const { body: file } = await server.api<{ hash: string }>('POST', '/files', tar);
  const posted = { file_id: file.hash, provisioner: 'terraform', storage_method: 'file' };
  const { body: version } = await server.api<{ id: string; job: { id: string } }>(
    'POST',
    '/organizations/default/templateversions',
    posted,
  );
  await sql`UPDATE provisioner_jobs SET started_at = now(), completed_at = now() WHERE id = ${version.job.id}`;
  const { body: template } = await server.api<{ id: string }>('POST', '/organizations/default/templates', {
    name: 'measured',
    template_version_id: version.id,
  });
  const agent = new Agent({ keepAlive: true, maxSockets: POSTS_AT_ONCE });
  const target = `${server.url}/api/v2/organizations/default/templateversions`;
  const headers = { 'Coder-Session-Token': server.token, 'content-type': 'application/json' };
  return (tags) =>
    new Promise((resolve, reject) => {
      const call = request(target, { agent, method: 'POST', headers }, (answer) => {
        answer.resume();
        answer.once('end', () => {
          if (answer.statusCode === 201) resolve();
          else reject(new Error(`a post was answered ${answer.statusCode}`));
        });
      });
      call.once('error', reject);
      call.end(JSON.stringify({ ...posted, template_id: template.id, tags }));
    });
}

/** One idle daemon: its job, the wait from the insert of each to its receipt, in ms. */
async function startMeasured(place: Place) {
  const tags = { set: 'measured' };
  const daemons = await startDaemons({ url: place.server.url, psk: PSK, daemons: [{ name: 'one', tags }] });
  const received = new Map<string, number>();
  return {
    async once(): Promise<void> {
      await place.post(tags);
      const [job] = await daemons.ended(1);
      received.set(job!.jobId, job!.receivedMs);
    },
    /** Of all jobs since the last call. */
    async waits(): Promise<number[]> {
      const rows = await place.sql<{ id: string; created: number }[]>`
        SELECT id, extract(epoch FROM created_at)::float8 * 1000 AS created FROM provisioner_jobs
        WHERE id = ANY(${[...received.keys()]}) AND job_status = 'succeeded'`;
      if (rows.length !== received.size) throw new Error(`only ${rows.length} of ${received.size} jobs succeeded`);
      const waits = rows.map(({ id, created }) => received.get(id)! - created);
      received.clear();
      return waits;
    },
    stop: () => daemons.stop(),
  };
}

/**
 * One idle daemon: the time from the row's insert to the daemon's receipt. Two servers get a job in turn, one with an
 * empty queue and one with a full queue. With only one server, filling and emptying its queue would make PostgreSQL plan
 * and write for a while afterwards and disturb the figures.
 */
async function oneDaemon(): Promise<Row[]> {
  const places = [await startPlace(), await startPlace()];
  const [empty, full] = await Promise.all(places.map(startMeasured));
  try {
    const round = async (): Promise<[number[], number[]]> => {
      for (let i = 0; i < JOBS_PER_ROUND; i++) {
        await empty!.once();
        await full!.once();
      }
      return [await empty!.waits(), await full!.waits()];
    };
    await round();
    await fillQueue(places[1]!.sql);
    await round();
    const rounds: [number[], number[]][] = [];
    for (let i = 0; i < ROUNDS; i++) rounds.push(await round());
    const all = rounds.flatMap(([without]) => without).sort((a, b) => a - b);
    const p50 = median(all);
    const p99 = all[Math.floor(all.length * 0.99)]!;
    const withOthers = median(rounds.flatMap(([, those]) => those));
    const ratio = withOthers / p50;
    const row = (what: string, ours: number, reach: number): Row => ({
      what: `${what}, insert to receipt`,
      ours: `${ours.toFixed(1)} ms`,
      floor: '–',
      figure: `${ours.toFixed(1)} ms`,
      reach: `≤ ${reach} ms`,
      met: ours <= reach,
    });
    return [
      row('dispatch to an idle daemon, p50', p50, 5),
      row('dispatch to an idle daemon, p99', p99, 50),
      {
        what: `dispatch with ${QUEUED} other jobs pending, p50`,
        ours: `${withOthers.toFixed(1)} ms`,
        floor: `${p50.toFixed(1)} ms`,
        figure: `${ratio.toFixed(2)}×`,
        reach: '≤ 1.1×',
        met: ratio <= 1.1,
      },
    ];
  } finally {
    empty!.stop();
    full!.stop();
    for (const place of places) await place.stop();
  }
}

/** Pending jobs that no daemon matches: half of them have one tag set, the others each have their own. */
async function fillQueue(sql: Sql): Promise<void> {
  await sql`INSERT INTO provisioner_jobs (organization_id, initiator_id, type, file_id, input, tags)
    SELECT organization_id, initiator_id, type, file_id, '{}', jsonb_build_object('scope', 'organization', 'owner', '',
      'nobody', CASE WHEN n % 2 = 0 THEN 'same' ELSE n::text END)
    FROM generate_series(1, ${QUEUED}) n, (SELECT * FROM provisioner_jobs LIMIT 1) one`;
}

/** Many idle daemons in several tag sets, then many jobs: jobs per second, and the server's highest memory use. */
async function manyDaemons(): Promise<Row[]> {
  const place = await startPlace();
  try {
    return await measureMany(place);
  } finally {
    await place.stop();
  }
}

async function measureMany({ server, sql, post }: Place): Promise<Row[]> {
  let peak = 0;
  const look = setInterval(() => {
    peak = Math.max(peak, pssMegabytes(server.child.pid!));
  }, PSS_EVERY_MS);
  const set = (n: number) => ({ set: `s${n % TAG_SETS}` });
  const daemons = await startDaemons({
    url: server.url,
    psk: PSK,
    daemons: Array.from({ length: DAEMONS }, (_, n) => ({ name: `d${n}`, tags: set(n) })),
  });
  try {
    const [before] = await sql<
      { n: number }[]
    >`SELECT count(*) AS n FROM provisioner_jobs WHERE completed_at IS NOT NULL`;
    const started = performance.now();
    let posted = 0;
    const posting = Promise.all(
      Array.from({ length: POSTS_AT_ONCE }, async () => {
        while (posted < JOBS) await post(set(posted++));
      }),
    );
    await Promise.all([posting, daemons.ended(JOBS)]);
    const perSecond = JOBS / ((performance.now() - started) / 1_000);
    const [after] = await sql<
      { n: number }[]
    >`SELECT count(*) AS n FROM provisioner_jobs WHERE job_status = 'succeeded'`;
    if (after!.n - before!.n !== JOBS) throw new Error(`${after!.n - before!.n} of ${JOBS} jobs succeeded`);
    peak = Math.max(peak, pssMegabytes(server.child.pid!));
    return [
      {
        what: `${JOBS} jobs, ${DAEMONS} daemons in ${TAG_SETS} tag sets`,
        ours: `${perSecond.toFixed(0)}/s`,
        floor: '–',
        figure: `${perSecond.toFixed(0)}/s`,
        reach: '≥ 300/s',
        met: perSecond >= 300,
      },
      {
        what: `server process meanwhile, at its highest (PSS)`,
        ours: `${peak.toFixed(0)} MB`,
        floor: '–',
        figure: `${peak.toFixed(0)} MB`,
        reach: '≤ 400 MB',
        met: peak <= 400,
      },
    ];
  } finally {
    clearInterval(look);
    daemons.stop();
  }
}
