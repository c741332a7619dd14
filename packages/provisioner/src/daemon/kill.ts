import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { signalGroup } from '@platform/kit';
import type { Session } from '../job/journal.ts';
import { isAlive } from '../runner/process-ref.ts';
import { readStarted } from '../terraform/run.ts';

/** SIGKILL to the process groups of all of a session's runs that still go on. */
export async function killRuns(session: Session): Promise<void> {
  for (const name of await readdir(session.dir).catch(() => [])) {
    if (!name.endsWith('.started')) continue;
    const terraform = await readStarted(join(session.dir, name));
    if (terraform && isAlive(terraform)) signalGroup(terraform.pid, 'SIGKILL');
  }
}
