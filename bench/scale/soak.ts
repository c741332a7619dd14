// A company at work for hours, with faults: what grows that is not data?
import { readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type Sql } from '@ropewalk/server/db/connect';
import { type Load, onSite, type RunOptions, startLoad } from './load.ts';
import { company } from './options.ts';
import { AnswerError, ask } from './requests.ts';
import { machineText, type Sampler } from './sampling.ts';
import type { Site } from './site.ts';
import { judgeSoak, type Moment, SETTLED_MINUTES, type SoakResult, type TableSize } from './soak-verdict.ts';
import { Errors, shown } from './tier.ts';

const MINUTE_MS = 60_000;
/** The time between two faults, in minutes. The first comes after one interval. */
const FAULT_MINUTES = 6;
/** Requests may fail for so long after a fault. */
const FAULT_MS = 30_000;
const STOP_MS = 3_000;
const LOCK_MS = 5_000;
/** Of the agents whose connections a fault ends. */
const CUT_SHARE = 0.1;
/** Of the people whose workspaces start or stop in a minute. */
const BUILDS_SHARE = 0.01;
const BUILD_MS = 10_000;
/** For the last agents to connect again. */
const REST_MS = 60_000;
const METADATA_SECONDS = 10;
const CONFLICT = 409;

interface Parts {
  site: Site;
  load: Load;
  sampler: Sampler;
  /** A second connection to the database, for faults. */
  admin: Sql;
}

type Fault = readonly [what: string, cause: (parts: Parts) => unknown];

/** In turn. None ends the server, whose memory would begin again. */
const FAULTS: readonly Fault[] = [
  ['a tenth of the agents lose their connection', ({ load }) => load.crowd.cut(CUT_SHARE)],
  [
    'all connections to the database end',
    ({ admin }) => admin`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid()`,
  ],
  ['the built-in daemons are killed', async ({ site }) => process.kill(await site.server.daemonsPid(), 'SIGKILL')],
  [
    'tables are locked for 5 seconds',
    ({ admin }) =>
      admin.begin(async (tx) => {
        await tx`LOCK TABLE workspaces, workspace_agents, provisioner_jobs IN ACCESS EXCLUSIVE MODE`;
        await sleep(LOCK_MS);
      }),
  ],
  [
    'the server stands still for 3 seconds',
    async ({ site }) => {
      site.server.child.kill('SIGSTOP');
      await sleep(STOP_MS);
      site.server.child.kill('SIGCONT');
    },
  ],
];

/** Starts and stops a few workspaces in turn. */
class Builds {
  readonly #site: Site;
  readonly #running = new Set<string>();
  #next = 0;
  count = 0;

  constructor(site: Site) {
    this.#site = site;
  }

  async post(count: number, errors: Errors): Promise<void> {
    const { server, stopped, people } = this.#site;
    for (let i = 0; i < count; i++) {
      const at = this.#next++ % stopped.length;
      const { id } = stopped[at]!;
      const transition = this.#running.has(id) ? 'stop' : 'start';
      const { token } = people[at % people.length]!;
      try {
        await ask(server.url, { method: 'POST', path: `/workspaces/${id}/builds`, token, body: { transition } });
      } catch (err) {
        // a fault has delayed its last build
        if (err instanceof AnswerError && err.status === CONFLICT) continue;
        errors.add({ errors: 1, reasons: [`a build: ${err}`] });
        continue;
      }
      if (transition === 'start') this.#running.add(id);
      else this.#running.delete(id);
      this.count += 1;
    }
  }
}

const entries = (pid: number, what: 'fd' | 'task'): number => readdirSync(`/proc/${pid}/${what}`).length;

/** What the deployment uses now, and since the moment before. */
function momentOf(sampler: Sampler, pid: number, minute: number): Moment {
  const { server, postgres } = sampler.end().groups;
  sampler.begin();
  return {
    minute,
    ...{ serverMegabytes: server.megabytes, postgresMegabytes: postgres.megabytes },
    ...{ descriptors: entries(pid, 'fd'), threads: entries(pid, 'task') },
    ...{ serverCores: server.cores, postgresCores: postgres.cores },
  };
}

async function tableSizes(sql: Sql): Promise<Map<string, TableSize>> {
  const rows = await sql<({ name: string } & TableSize)[]>`SELECT relname AS name,
    pg_table_size(relid)::float8 AS bytes, pg_indexes_size(relid)::float8 AS "indexBytes",
    n_live_tup::float8 AS rows, n_dead_tup::float8 AS dead FROM pg_stat_user_tables`;
  return new Map(rows.map(({ name, ...size }) => [name, size]));
}

export function runSoak(users: number, options: RunOptions): Promise<SoakResult> {
  // the builds that the tier would post at the same time are spread over the run
  const counts = { ...company(users), buildSeconds: BUILD_MS / 1_000, realBuilds: 0 };
  return onSite(counts, options, async (started) => {
    const load = await startLoad(counts, started, { ...options, again: true });
    const { site, sampler, stops } = started;
    const admin = connect(site.databaseUrl, { max: 1 });
    stops.push(() => admin.end());
    options.say(`${options.minutes} minutes …`);
    return watch({ site, load, sampler, admin }, users, options);
  });
}

async function watch(parts: Parts, users: number, { minutes, signal, say }: RunOptions): Promise<SoakResult> {
  const { site, load, sampler } = parts;
  const pid = site.server.child.pid!;
  const [errors, ofFaults] = [new Errors(), new Errors()];
  const builds = new Builds(site);
  const moments: Moment[] = [];
  const faults: SoakResult['faults'] = [];
  let requests = 0;
  let before = new Map<string, TableSize>();
  const rest = (ms: number) => sleep(Math.max(0, ms), undefined, { signal });
  const take = async (into: Errors) => {
    const [did, probed] = [await load.people.take(), await load.probes.take()];
    into.add(did, probed);
    requests += (did.times.get('api')?.count ?? 0) + (probed.times.get('api')?.count ?? 0);
  };
  const began = performance.now();
  sampler.begin();
  for (let minute = 1; minute <= minutes; minute++) {
    if (minute % FAULT_MINUTES === 0 && minute < minutes) {
      const [what, cause] = FAULTS[(minute / FAULT_MINUTES - 1) % FAULTS.length]!;
      await take(errors);
      faults.push({ minute, what });
      say(`minute ${minute}: ${what}`);
      await cause(parts);
      await rest(FAULT_MS);
      await take(ofFaults);
    }
    await builds.post(Math.ceil(users * BUILDS_SHARE), errors);
    await rest(began + minute * MINUTE_MS - performance.now());
    const moment = momentOf(sampler, pid, minute);
    moments.push(moment);
    if (minute === Math.min(SETTLED_MINUTES, minutes - 1)) before = await tableSizes(site.sql);
    say(
      `minute ${minute}: server ${moment.serverMegabytes.toFixed(0)} MB, PostgreSQL ${moment.postgresMegabytes.toFixed(0)} MB, ${moment.descriptors} descriptors, ${errors.count} errors`,
    );
  }
  await rest(REST_MS);
  await take(errors);
  const after = await tableSizes(site.sql);
  const { connected } = await shown(site, METADATA_SECONDS);
  const run = {
    ...{ at: new Date().toISOString(), machine: machineText(), users, minutes, moments, faults },
    tables: Object.fromEntries(
      [...after].flatMap(([name, size]) => {
        const earlier = before.get(name);
        return earlier ? [[name, { before: earlier, after: size }]] : [];
      }),
    ),
    ...{ builds: builds.count, requests, errors: errors.count, errorsOfFaults: ofFaults.count },
    reasons: [...errors.reasons, ...ofFaults.reasons.map((reason) => `after a fault: ${reason}`)],
    ...{ lost: load.crowd.lost.length, connected },
  };
  return { ...run, checks: judgeSoak(run) };
}
