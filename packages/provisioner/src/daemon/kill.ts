import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isAlive } from '@ropewalk/kit/process-ref';
import type { Session } from '../job/session.ts';
import { readStarted } from '../terraform/run.ts';
import type { Send } from '../terraform/signal.ts';

const GONE_MS = 5_000;

/** Sends SIGKILL to the process groups of a session's running runs. Resolves when they are gone. */
export async function killRuns(session: Session, send: Send): Promise<void> {
  const limit = performance.now() + GONE_MS;
  for (const name of await readdir(session.dir).catch(() => [])) {
    if (!name.endsWith('.started')) continue;
    const terraform = await readStarted(join(session.dir, name));
    if (!terraform || !isAlive(terraform)) continue;
    await send(terraform, 'SIGKILL').catch(() => {});
    while (isAlive(terraform) && performance.now() < limit) await delay(10);
  }
}
