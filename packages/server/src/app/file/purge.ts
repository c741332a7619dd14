import { systemTask } from '../../authz/proofs.ts';
import { deleteUnreferencedFiles } from '../../db/queries/files.ts';
import { type Services, systemContext } from '../context/context.ts';

/** How long a file may wait, after its last upload, for the template version that uses it. */
const HOURS = 24;
/** Files have up to 100 MiB: more in one statement would take too long. */
const AT_ONCE = 20;
/** The next run deletes what is left. */
const LONGEST_RUN_MS = 30_000;

/** Deletes files that no job and no template version uses. Returns how many it deleted. */
export async function purgeFiles(services: Services): Promise<number> {
  const { sql, clock } = services;
  const task = systemTask(systemContext(services, 'purge'));
  const end = clock.monotonic() + LONGEST_RUN_MS;
  let gone = 0;
  for (let count = AT_ONCE; count === AT_ONCE && clock.monotonic() < end; gone += count) {
    count = await deleteUnreferencedFiles(sql, task, { hours: HOURS, most: AT_ONCE });
  }
  return gone;
}
