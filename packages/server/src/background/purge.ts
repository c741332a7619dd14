import { errorText } from '@platform/kit';
import type { Services } from '../app/context.ts';
import { BUILT_IN_KEY_ID, PSK_KEY_ID, USER_AUTH_KEY_ID } from '../db/queries/daemons.ts';

const EVERY_MS = 10 * 60_000;
const UNSEEN_DAYS = 7;
const NO_KEYS = [BUILT_IN_KEY_ID, USER_AUTH_KEY_ID, PSK_KEY_ID];

/**
 * Removes daemons that nobody has seen for a week (never seen: made a week ago) and those whose key was deleted. One
 * that has a running job stays until the job has ended, so that the job keeps naming its worker. How many went.
 */
export async function purgeDaemons({ sql }: Pick<Services, 'sql'>): Promise<number> {
  const { count } = await sql`DELETE FROM provisioner_daemons d
    WHERE (coalesce(last_seen_at, created_at) < now() - ${UNSEEN_DAYS} * interval '1 day'
        OR (key_id <> ALL(${NO_KEYS}::uuid[]) AND NOT EXISTS (SELECT 1 FROM provisioner_keys k WHERE k.id = d.key_id)))
      AND NOT EXISTS (SELECT 1 FROM provisioner_jobs j
        WHERE j.worker_id = d.id AND j.started_at IS NOT NULL AND j.completed_at IS NULL)`;
  return count;
}

/** Of what agents report. */
const STATS_DAYS = 180;
const CONNECTIONS_DAYS = 90;
const AT_ONCE = 10_000;

/** Removes statistics and connections of workspaces that are too old to be asked for. How many rows went. */
export async function purgeReports({ sql }: Pick<Services, 'sql'>): Promise<number> {
  let gone = 0;
  for (let count = AT_ONCE; count === AT_ONCE; ) {
    ({ count } = await sql`DELETE FROM workspace_agent_stats WHERE id IN (SELECT id FROM workspace_agent_stats
      WHERE created_at < now() - ${STATS_DAYS} * interval '1 day' ORDER BY created_at LIMIT ${AT_ONCE})`);
    gone += count;
  }
  for (let count = AT_ONCE; count === AT_ONCE; ) {
    ({ count } = await sql`DELETE FROM connection_logs WHERE id IN (SELECT id FROM connection_logs
      WHERE connect_time < now() - ${CONNECTIONS_DAYS} * interval '1 day' ORDER BY connect_time LIMIT ${AT_ONCE})`);
    gone += count;
  }
  return gone;
}

/** Keeps what is only looked back upon from growing without end. */
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
