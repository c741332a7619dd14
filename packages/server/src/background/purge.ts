import type { BackgroundTask } from '../app/context/background-task.ts';
import { type Services, systemContext } from '../app/context/context.ts';
import { purgeFiles } from '../app/file/purge.ts';
import { systemTask } from '../authz/proofs.ts';
import { agentsWithOldLogs, deleteAgentLogs } from '../db/queries/agent-logs.ts';
import { purgeStats, purgeUsage } from '../db/queries/agent-reports.ts';
import { purgeExpiredKeys } from '../db/queries/apikeys.ts';
import { purgeAudit } from '../db/queries/audit.ts';
import { purgeConnections } from '../db/queries/connections.ts';
import { deleteUnseenDaemons } from '../db/queries/daemons.ts';
import { purgeMessages } from '../db/queries/notifications.ts';
import { purgeUnusedOAuth2Apps } from '../db/queries/oauth2-apps.ts';
import { purgeOAuth2Codes, purgeOAuth2Tokens } from '../db/queries/oauth2-tokens.ts';
import { inBatches } from './batches.ts';
import { purgeDeletedWorkspaces } from './purge-deleted.ts';
import { USAGE_DAYS } from './retention.ts';

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
/** How long notifications that were sent, or could not be sent, are kept. Inboxes are separate. */
const MESSAGES_MS = 7 * 24 * 3_600_000;
/** The maximum number of agents whose logs are removed one after the other. */
const AGENTS_AT_ONCE = 500;

/** Removes statistics of workspaces that are too old to be asked for. How many rows went. */
export async function purgeReports(services: Services, signal?: AbortSignal): Promise<number> {
  const { sql } = services;
  const task = systemTask(systemContext(services, 'purge'));
  const stats = await inBatches((most) => purgeStats(sql, task, { days: STATS_DAYS, most }), signal);
  return stats + (await inBatches((most) => purgeUsage(sql, task, { days: USAGE_DAYS, most }), signal));
}

/**
 * Removes entries of the audit and connection logs, messages and expired sessions that are older than their retention.
 * How many went.
 */
export async function purgeRecords(services: Services, signal?: AbortSignal): Promise<number> {
  const { sql, config, clock } = services;
  const task = systemTask(systemContext(services, 'purge'));
  let gone = 0;
  for (const [retention, purge] of [
    [config.auditLogsRetention, purgeAudit],
    [config.connectionLogsRetention, purgeConnections],
    [config.apiKeysRetention, purgeExpiredKeys],
    [MESSAGES_MS, purgeMessages],
  ] as const) {
    if (retention <= 0) continue;
    const before = new Date(clock.now().getTime() - retention);
    gone += await inBatches((most) => purge(sql, task, { before, most }), signal);
  }
  return gone;
}

/**
 * Removes the logs of agents that were last connected before the retention, except those of each workspace's latest
 * build. How many lines went.
 */
export async function purgeAgentLogs(services: Services, signal?: AbortSignal): Promise<number> {
  const { sql, config, clock } = services;
  const retention = config.workspaceAgentLogsRetention;
  if (retention <= 0) return 0;
  const task = systemTask(systemContext(services, 'purge'));
  const before = new Date(clock.now().getTime() - retention);
  let gone = 0;
  for (let agents: string[] = []; !signal?.aborted; ) {
    agents = await agentsWithOldLogs(sql, { before, most: AGENTS_AT_ONCE });
    for (const id of agents) {
      gone += await inBatches((most) => deleteAgentLogs(sql, task, id, most), signal);
    }
    if (agents.length < AGENTS_AT_ONCE) break;
  }
  return gone;
}

/** How long an app that registered itself stays, if nobody lets it in. */
const UNUSED_APP_MS = 7 * 24 * 3_600_000;

/** Removes expired codes and refresh tokens, and apps that registered themselves and are unused. How many went. */
export async function purgeOAuth2(services: Services, signal?: AbortSignal): Promise<number> {
  const { sql, clock } = services;
  const task = systemTask(systemContext(services, 'purge'));
  const now = clock.now();
  const unused = new Date(now.getTime() - UNUSED_APP_MS);
  const codes = await inBatches((most) => purgeOAuth2Codes(sql, task, { before: now, most }), signal);
  const tokens = await inBatches((most) => purgeOAuth2Tokens(sql, task, { before: now, most }), signal);
  return (
    codes + tokens + (await inBatches((most) => purgeUnusedOAuth2Apps(sql, task, { before: unused, most }), signal))
  );
}

/** Tasks that keep records from growing without end. */
export function purgeTasks(services: Services): BackgroundTask[] {
  const task = (what: string, purge: (services: Services, signal: AbortSignal) => Promise<number>): BackgroundTask => ({
    name: `purge ${what}`,
    periodMs: PERIOD_MS,
    // the first purge of an old deployment has much to remove
    timeoutMs: PERIOD_MS,
    needsLock: true,
    group: 'purge',
    async run(signal) {
      const count = await purge(services, signal);
      if (count > 0) services.log.info(`removed old ${what}`, { count });
      return undefined;
    },
  });
  return [
    task('provisioner daemons', purgeDaemons),
    task('reports of agents', purgeReports),
    task('logs of agents', purgeAgentLogs),
    task('audit and connection logs', purgeRecords),
    // before the files that only their jobs use
    task('builds of deleted workspaces', purgeDeletedWorkspaces),
    task('unused files', purgeFiles),
    task('codes and tokens of apps', purgeOAuth2),
  ];
}
