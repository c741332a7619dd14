import { Gauge, type Registry } from 'prom-client';
import type { Sql } from '../db/connect.ts';
import { readFigures } from '../db/queries/figures.ts';
import { OTHER, tagsLabel } from './labels.ts';

/** The maximum number of tag sets with their own series. */
const MAX_SETS = 100;
const JOB_STATUSES = ['pending', 'running', 'succeeded', 'canceling', 'canceled', 'failed'];
const USER_STATUSES = ['active', 'dormant', 'suspended'];
const BOUNDED =
  `The ${MAX_SETS} largest tag sets have their own series. The others are summed for each organization under ` +
  `tags="${OTHER}".`;
const SHARED = 'For the whole deployment: each server reports the same value.';

/** Gauges with values from the database, read at each scrape. */
export interface DatabaseGauges {
  /** Reads all of them, in one read-only transaction of a few statements. */
  read(sql: Sql): Promise<void>;
  /** Removes the values, so that a scrape does not report outdated ones. */
  forget(): void;
}

export function createDatabaseGauges(registry: Registry): DatabaseGauges {
  const gauge = <L extends string>(name: string, help: string, labelNames: readonly L[] = []) =>
    new Gauge({ name, help: `${help} ${SHARED}`, labelNames, registers: [registry] });
  const bySet = ['organization', 'tags'] as const;
  const depth = gauge('coderd_provisioner_queue_depth', `The number of pending jobs. ${BOUNDED}`, bySet);
  const oldest = gauge(
    'coderd_provisioner_queue_oldest_seconds',
    `The time that the oldest pending job has waited, in seconds. Under "other", the longest of them. ${BOUNDED}`,
    bySet,
  );
  const matching = gauge(
    'coderd_provisioner_matching_idle',
    `The number of idle daemons that may run a pending job with these tags. Only for the ${MAX_SETS} largest tag sets of pending jobs.`,
    bySet,
  );
  const daemons = gauge(
    'coderd_provisioner_daemons',
    `The number of provisioner daemons. Offline ones count for a week. ${BOUNDED}`,
    [...bySet, 'status'],
  );
  const online = gauge('coderd_provisionerd_num_daemons', 'The number of online provisioner daemons.');
  const jobs = gauge('coderd_provisionerd_jobs_current', 'The number of running jobs.', ['provisioner']);
  const replicas = gauge('coderd_replicas', 'The number of servers that use the database.');
  const users = gauge('coderd_api_active_users_duration_hour', 'The number of people active in the last hour.');
  const accounts = gauge('coderd_api_total_user_count', 'The number of accounts by status.', ['status']);
  const builds = gauge(
    'coderd_api_workspace_latest_build',
    'The number of workspaces by the status of their latest build.',
    ['status'],
  );
  // Upstream's metrics of its license. This server has none and no limit on accounts: coderd_license_limit_users is absent, as
  // upstream's is without a limit, so that alerts on used seats stay quiet.
  const licensed = gauge('coderd_license_active_users', 'The number of active accounts.');
  const unlimited = ['user_limit_enabled', 'warnings', 'errors'].map((name) =>
    gauge(`coderd_license_${name}`, 'Always 0: this server needs no license.'),
  );
  const single = [licensed, ...unlimited, online, replicas, users];
  const all = [...single, depth, oldest, matching, daemons, jobs, accounts, builds];
  const forget = () => {
    for (const one of all) one.reset();
    // without labels a reset means 0, which would be reported while the database is unavailable
    for (const one of single) one.remove();
  };
  forget();

  return {
    forget,
    async read(sql) {
      const {
        waiting,
        present,
        running,
        activeUsers,
        users: statuses,
        latest,
        replicas: servers,
      } = await readFigures(sql, MAX_SETS);
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
      replicas.set(servers);
      users.set(activeUsers);
      for (const status of USER_STATUSES) accounts.set({ status }, 0);
      for (const { status, count } of statuses) accounts.set({ status }, count);
      licensed.set(statuses.find(({ status }) => status === 'active')?.count ?? 0);
      for (const one of unlimited) one.set(0);
      for (const status of JOB_STATUSES) builds.set({ status }, 0);
      for (const { status, count } of latest) builds.set({ status }, count);
    },
  };
}
