// Purges workspaces that were deleted long ago, in two steps. After --deleted-workspaces-retention, the contents of their
// builds go: logs, timings, resources with agents, and states. When insights no longer count the builds, they go with
// their jobs, but for the latest. The workspace itself stays for the audit and connection logs, which name it.
//
// A workspace whose last delete failed is not deleted, and nothing of it goes. The state of the latest build and orphan
// states stay too: resources that were left behind may be named nowhere else.

import { type Services, systemContext } from '../app/context/context.ts';
import { systemTask } from '../authz/proofs.ts';
import { dropStatesOfDeleted } from '../db/queries/build-states.ts';
import {
  buildsOfDeleted,
  CONTENTS,
  deleteBuilds,
  deleteDryRuns,
  deletedWorkspaces,
  oldDryRuns,
  setHistory,
} from '../db/queries/deleted-workspaces.ts';
import { inBatches } from './batches.ts';
import { USAGE_DAYS } from './retention.ts';

const DAY_MS = 24 * 3_600_000;
const FIRST_ID = '00000000-0000-0000-0000-000000000000';
/** The maximum number of workspaces that are purged together, and of their builds. */
const MAX_WORKSPACES = 50;
const MAX_BUILDS = 100;

/** Returns how many builds and dry runs it purged. A workspace whose purge is interrupted is purged again. */
export async function purgeDeletedWorkspaces(services: Services, signal?: AbortSignal): Promise<number> {
  const { sql, config, clock } = services;
  const retention = config.deletedWorkspacesRetention;
  if (retention <= 0) return 0;
  const task = systemTask(systemContext(services, 'purge'));
  const before = new Date(clock.now().getTime() - retention);
  const uncounted = new Date(clock.now().getTime() - Math.max(retention, USAGE_DAYS * DAY_MS));
  let gone = 0;

  const purgeContents = async (jobIds: string[]) => {
    for (const purge of CONTENTS) await inBatches((most) => purge(sql, task, jobIds, most), signal);
  };
  const purgeBuilds = async (workspaces: string[]) => {
    for (let after = FIRST_ID; !signal?.aborted; ) {
      const builds = await buildsOfDeleted(sql, workspaces, { after, most: MAX_BUILDS });
      await purgeContents(builds.map(({ job_id }) => job_id));
      const ids = builds.map(({ id }) => id);
      await dropStatesOfDeleted(sql, task, ids);
      gone += builds.length;
      if (builds.length < MAX_BUILDS) break;
      after = ids.at(-1)!;
    }
  };
  /** Purges groups of workspaces until there are no more, and notes what is left of each. */
  const each = async (
    given: { history: 'whole' | 'figures'; before: Date; left: 'figures' | 'latest' },
    purge: (workspaces: string[]) => Promise<unknown>,
  ) => {
    while (!signal?.aborted) {
      const workspaces = await deletedWorkspaces(sql, { ...given, most: MAX_WORKSPACES });
      await purge(workspaces);
      if (signal?.aborted) return;
      await setHistory(sql, task, workspaces, given.left);
      if (workspaces.length < MAX_WORKSPACES) return;
    }
  };

  await each({ history: 'whole', before, left: 'figures' }, purgeBuilds);
  await each({ history: 'figures', before: uncounted, left: 'latest' }, (workspaces) =>
    inBatches((most) => deleteBuilds(sql, task, workspaces, most), signal, MAX_BUILDS),
  );
  gone += await inBatches(
    async (most) => {
      const jobs = await oldDryRuns(sql, { before, most });
      await purgeContents(jobs);
      return signal?.aborted ? 0 : deleteDryRuns(sql, task, jobs);
    },
    signal,
    MAX_BUILDS,
  );
  return gone;
}
