import { Gauge, type Registry } from 'prom-client';
import type { Sql } from '../db/connect.ts';
import { readFigures } from '../db/queries/figures.ts';
import { OTHER, tagsLabel } from './labels.ts';

/** So many tag sets have series of their own. */
const MOST_SETS = 100;
const JOB_STATUSES = ['pending', 'running', 'succeeded', 'canceling', 'canceled', 'failed'];
const BOUNDED =
  `The ${MOST_SETS} largest tag sets have series of their own, the others are summed for each organization under ` +
  `tags="${OTHER}".`;
const SHARED = 'Of the whole deployment: each server says the same.';

/** Gauges whose truth is in the database; it is read when somebody asks. */
export interface DatabaseGauges {
  /** Reads them all, in one read-only transaction of a few statements. */
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
      const { waiting, present, running, activeUsers, latest } = await readFigures(sql, MOST_SETS);
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
