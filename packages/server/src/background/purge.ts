import { setTimeout as delay } from 'node:timers/promises';
import type { BackgroundTask } from '../app/background-task.ts';
import { type Services, systemContext } from '../app/context.ts';
import { purgeFiles } from '../app/file/purge.ts';
import { systemTask } from '../authz/proofs.ts';
import { purgeStats, purgeUsage } from '../db/queries/agent-reports.ts';
import { purgeAudit } from '../db/queries/audit.ts';
import { purgeConnections } from '../db/queries/connections.ts';
import { deleteUnseenDaemons } from '../db/queries/daemons.ts';
import { purgeMessages } from '../db/queries/notifications.ts';

const PERIOD_MS = 10 * 60_000;
const UNSEEN_DAYS = 7;

/**
 * Removes daemons that nobody has seen for a week (never seen: made a week ago) and those whose key was deleted. One
 * that has a running job stays until the job has ended, so that the job keeps naming its worker. How many went.
 */
export async function purgeDaemons(services: Services): Promise<number> {
  return deleteUnseenDaemons(services.sql, systemTask(systemContext(services, 'purge')), UNSEEN_DAYS);
}

/** How long what agents report is kept. */
const STATS_DAYS = 180;
/** A little more than the longest period of insights. */
const USAGE_DAYS = 410;
const AT_ONCE = 10_000;

/** Removes statistics of workspaces that are too old to be asked for. How many rows went. */
export async function purgeReports(services: Services): Promise<number> {
  const { sql } = services;
  const task = systemTask(systemContext(services, 'purge'));
  let gone = 0;
  for (let count = AT_ONCE; count === AT_ONCE; ) {
    count = await purgeStats(sql, task, { days: STATS_DAYS, most: AT_ONCE });
    gone += count;
  }
  for (let count = AT_ONCE; count === AT_ONCE; ) {
    count = await purgeUsage(sql, task, { days: USAGE_DAYS, most: AT_ONCE });
    gone += count;
  }
  return gone;
}

/** How long notifications that were sent, or could not be sent, are kept. Inboxes are separate. */
const MESSAGES_MS = 7 * 24 * 3_600_000;
/** The most rows of a record that one statement deletes, and the pause after it: other statements come in between. */
const RECORDS_AT_ONCE = 2_000;
const PAUSE_MS = 20;

/** Removes entries of the audit and connection logs, and messages, that are older than their retention. How many went. */
export async function purgeRecords(services: Services, signal?: AbortSignal): Promise<number> {
  const { sql, config, clock } = services;
  const task = systemTask(systemContext(services, 'purge'));
  let gone = 0;
  for (const [retention, purge] of [
    [config.auditLogsRetention, purgeAudit],
    [config.connectionLogsRetention, purgeConnections],
    [MESSAGES_MS, purgeMessages],
  ] as const) {
    if (retention <= 0) continue;
    const before = new Date(clock.now().getTime() - retention);
    for (let count = RECORDS_AT_ONCE; count === RECORDS_AT_ONCE && !signal?.aborted; ) {
      count = await purge(sql, task, { before, most: RECORDS_AT_ONCE });
      gone += count;
      if (count === RECORDS_AT_ONCE) await delay(PAUSE_MS);
    }
  }
  return gone;
}

/** Tasks that keep records from growing without end. */
export function purgeTasks(services: Services): BackgroundTask[] {
  const task = (what: string, purge: (services: Services, signal: AbortSignal) => Promise<number>): BackgroundTask => ({
    name: `purge ${what}`,
    periodMs: PERIOD_MS,
    // the first purge of an old deployment has much to remove
    timeoutMs: PERIOD_MS,
    needsLock: true,
    async run(signal) {
      const count = await purge(services, signal);
      if (count > 0) services.log.info(`removed old ${what}`, { count });
      return undefined;
    },
  });
  return [
    task('provisioner daemons', purgeDaemons),
    task('reports of agents', purgeReports),
    task('audit and connection logs', purgeRecords),
    task('unused files', purgeFiles),
  ];
}
