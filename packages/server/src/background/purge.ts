import { errorText } from '@platform/kit';
import { type Services, systemContext } from '../app/context.ts';
import { systemTask } from '../authz/proofs.ts';
import { purgeConnections, purgeStats } from '../db/queries/agent-reports.ts';
import { deleteUnseenDaemons } from '../db/queries/daemons.ts';

const EVERY_MS = 10 * 60_000;
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
const CONNECTIONS_DAYS = 90;
const AT_ONCE = 10_000;

/** Removes statistics and connections of workspaces that are too old to be asked for. How many rows went. */
export async function purgeReports(services: Services): Promise<number> {
  const { sql } = services;
  const task = systemTask(systemContext(services, 'purge'));
  let gone = 0;
  for (let count = AT_ONCE; count === AT_ONCE; ) {
    count = await purgeStats(sql, task, { days: STATS_DAYS, most: AT_ONCE });
    gone += count;
  }
  for (let count = AT_ONCE; count === AT_ONCE; ) {
    count = await purgeConnections(sql, task, { days: CONNECTIONS_DAYS, most: AT_ONCE });
    gone += count;
  }
  return gone;
}

/** Keeps records from growing without end. */
export function startPurge(services: Services): { close(): void } {
  const { log } = services;
  const run = () => {
    purgeDaemons(services).then(
      (gone) => {
        if (gone > 0) log.info('removed provisioner daemons that are gone', { count: gone });
      },
      (err) => log.warn('could not remove old provisioner daemons', { err: errorText(err) }),
    );
    purgeReports(services).then(
      (gone) => {
        if (gone > 0) log.info('removed old reports of agents', { count: gone });
      },
      (err) => log.warn('could not remove old reports of agents', { err: errorText(err) }),
    );
  };
  run();
  const timer = setInterval(run, EVERY_MS);
  timer.unref();
  return { close: () => clearInterval(timer) };
}
