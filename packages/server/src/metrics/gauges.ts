import { Gauge, type Registry } from 'prom-client';
import type { Tags } from '../app/job/tags.ts';
import type { Sql, Tx } from '../db/connect.ts';
import { daemonStatus } from '../db/queries/daemons.ts';
import { OTHER, tagsLabel } from './labels.ts';

/** So many tag sets have series of their own. */
const MOST_SETS = 100;
/** Of one statement. A database that is busier than this has better things to do. */
const STATEMENT_TIMEOUT = '5s';
const JOB_STATUSES = ['pending', 'running', 'succeeded', 'canceling', 'canceled', 'failed'];
const BOUNDED =
  `The ${MOST_SETS} largest tag sets have series of their own, the others are summed for each organization under ` +
  `tags="${OTHER}".`;
const SHARED = 'Of the whole deployment: each server says the same.';

/** Gauges whose truth is in the database; it is read when somebody asks. */
export interface DatabaseGauges {
  /** Reads them all anew, in one read-only transaction of a few statements. */
  read(sql: Sql): Promise<void>;
  /** Forgets the figures, so that old ones are not taken for new ones. */
  forget(): void;
}

export function createDatabaseGauges(registry: Registry): DatabaseGauges {
  const gauge = <L extends string>(name: string, help: string, labelNames: readonly L[] = []) =>
    new Gauge({ name, help: `${help} ${SHARED}`, labelNames, registers: [registry] });
  const bySet = ['organization', 'tags'] as const;
  const depth = gauge('coderd_provisioner_queue_depth', `Jobs that wait for a daemon. ${BOUNDED}`, bySet);
  const oldest = gauge(
    'coderd_provisioner_queue_oldest_seconds',
    `How long the oldest waiting job has waited; of the others the oldest of all. ${BOUNDED}`,
    bySet,
  );
  const matching = gauge(
    'coderd_provisioner_matching_idle',
    `Idle daemons that may run a waiting job with these tags. Only for the ${MOST_SETS} largest tag sets that wait.`,
    bySet,
  );
  const daemons = gauge('coderd_provisioner_daemons', `Provisioner daemons, offline ones for a week. ${BOUNDED}`, [
    ...bySet,
    'status',
  ]);
  const online = gauge('coderd_provisionerd_num_daemons', 'Provisioner daemons that are not offline.');
  const jobs = gauge('coderd_provisionerd_jobs_current', 'Jobs that run.', ['provisioner']);
  const users = gauge('coderd_api_active_users_duration_hour', 'People seen within the last hour.');
  const builds = gauge('coderd_api_workspace_latest_build', 'Workspaces by the status of their latest build.', [
    'status',
  ]);
  const all = [depth, oldest, matching, daemons, online, jobs, users, builds];
  const forget = () => {
    for (const one of all) one.reset();
    // without labels a reset means 0, which would be said of a database that was not asked
    for (const one of [online, users]) one.remove();
  };
  forget();

  return {
    forget,
    async read(sql) {
      const [waiting, present, running, activeUsers, latest] = await sql.begin('READ ONLY', async (tx) => {
        await tx`SELECT set_config('statement_timeout', ${STATEMENT_TIMEOUT}, true)`;
        return [
          await readQueue(tx),
          await readDaemons(tx),
          await readRunning(tx),
          await readUsers(tx),
          await readBuilds(tx),
        ];
      });
      forget();
      for (const { organization, tags, waits, seconds, idle } of waiting) {
        const labels = { organization, tags: tags ? tagsLabel(tags) : OTHER };
        depth.set(labels, waits);
        oldest.set(labels, seconds);
        if (idle !== null) matching.set(labels, idle);
      }
      let seen = 0;
      for (const { organization, tags, ...counts } of present) {
        const labels = { organization, tags: tags ? tagsLabel(tags) : OTHER };
        for (const status of ['idle', 'busy', 'offline'] as const) daemons.set({ ...labels, status }, counts[status]);
        seen += counts.idle + counts.busy;
      }
      online.set(seen);
      jobs.set({ provisioner: 'terraform' }, 0);
      for (const { provisioner, count } of running) jobs.set({ provisioner }, count);
      users.set(activeUsers);
      for (const status of JOB_STATUSES) builds.set({ status }, 0);
      for (const { status, count } of latest) builds.set({ status }, count);
    },
  };
}

interface QueueSet {
  organization: string;
  /** Null: the rest. */
  tags: Tags | null;
  waits: number;
  seconds: number;
  /** Null for the rest. */
  idle: number | null;
}

function readQueue(tx: Tx): Promise<QueueSet[]> {
  return tx<QueueSet[]>`
    WITH sets AS (
      SELECT organization_id, tags, array_agg(DISTINCT provisioner) AS provisioners, count(*) AS waits,
        extract(epoch FROM now() - min(created_at))::float8 AS seconds
      FROM provisioner_jobs WHERE started_at IS NULL AND completed_at IS NULL AND canceled_at IS NULL
      GROUP BY organization_id, tags),
    ranked AS (
      SELECT sets.*, o.name AS organization, row_number() OVER (ORDER BY waits DESC, o.name, tags::text) AS rank
      FROM sets JOIN organizations o ON o.id = sets.organization_id),
    idle AS (
      SELECT organization_id, tags, provisioners, count(*) AS daemons FROM provisioner_daemons d
      WHERE ${daemonStatus(tx)} = 'idle'
      GROUP BY organization_id, tags, provisioners)
    SELECT organization, tags, waits, seconds, (
      SELECT coalesce(sum(daemons), 0)::int8 FROM idle
      WHERE idle.organization_id = ranked.organization_id AND idle.provisioners && ranked.provisioners
        AND provisioner_tags_match(idle.tags, ranked.tags)) AS idle
    FROM ranked WHERE rank <= ${MOST_SETS}
    UNION ALL
    SELECT organization, NULL, sum(waits)::int8, max(seconds), NULL FROM ranked WHERE rank > ${MOST_SETS}
    GROUP BY organization`;
}

interface DaemonSet {
  organization: string;
  tags: Tags | null;
  idle: number;
  busy: number;
  offline: number;
}

function readDaemons(tx: Tx): Promise<DaemonSet[]> {
  return tx<DaemonSet[]>`
    WITH each AS (
      SELECT organization_id, tags, ${daemonStatus(tx)} AS status FROM provisioner_daemons d),
    sets AS (
      SELECT organization_id, tags, count(*) FILTER (WHERE status = 'idle') AS idle,
        count(*) FILTER (WHERE status = 'busy') AS busy, count(*) FILTER (WHERE status = 'offline') AS offline
      FROM each GROUP BY organization_id, tags),
    ranked AS (
      SELECT sets.*, o.name AS organization,
        row_number() OVER (ORDER BY idle + busy DESC, offline DESC, o.name, tags::text) AS rank
      FROM sets JOIN organizations o ON o.id = sets.organization_id)
    SELECT organization, tags, idle, busy, offline FROM ranked WHERE rank <= ${MOST_SETS}
    UNION ALL
    SELECT organization, NULL, sum(idle)::int8, sum(busy)::int8, sum(offline)::int8 FROM ranked
    WHERE rank > ${MOST_SETS} GROUP BY organization`;
}

function readRunning(tx: Tx): Promise<{ provisioner: string; count: number }[]> {
  return tx<{ provisioner: string; count: number }[]>`SELECT provisioner, count(*) FROM provisioner_jobs
    WHERE started_at IS NOT NULL AND completed_at IS NULL GROUP BY provisioner`;
}

async function readUsers(tx: Tx): Promise<number> {
  const [row] = await tx<{ count: number }[]>`SELECT count(*) FROM users
    WHERE last_seen_at > now() - interval '1 hour' AND NOT deleted AND NOT is_system`;
  return row!.count;
}

function readBuilds(tx: Tx): Promise<{ status: string; count: number }[]> {
  return tx<{ status: string; count: number }[]>`
    SELECT j.job_status AS status, count(*) FROM workspaces w
    JOIN LATERAL (SELECT job_id FROM workspace_builds b WHERE b.workspace_id = w.id
      ORDER BY build_number DESC LIMIT 1) latest ON true
    JOIN provisioner_jobs j ON j.id = latest.job_id WHERE NOT w.deleted GROUP BY j.job_status`;
}
