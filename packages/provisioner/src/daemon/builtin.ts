import { join } from 'node:path';
import { AppError, type Clock, systemClock } from '@ropewalk/kit';
import type { ProvisionerDaemon } from './daemon.ts';
import { type DaemonGroup, type GroupOptions, runDaemonGroup } from './group.ts';

const PARENT_POLL_MS = 250;
/** The interval in which daemons look for jobs that the daemons of a killed server left behind. */
const ADOPT_EVERY_MS = 2_000;

export interface BuiltinOptions extends Omit<GroupOptions, 'members' | 'once'> {
  /** The number of daemons in this process. */
  count: number;
  /** The first part of the daemons' names: `<namePrefix>-<index>`. */
  namePrefix: string;
  /** Whether the server that started this process still runs. Default: the parent process is unchanged. */
  parentAlive?: (() => boolean) | undefined;
}

export interface BuiltinDaemons {
  /** Resolves when all have ended. */
  done: Promise<void>;
  stop: DaemonGroup['stop'];
}

/**
 * Starts the server's own daemons. They share this process, one cache and one runner. Their sessions are in
 * `<cacheDir>/provisioner-<i>/work`. Their secret belongs to one start of the server. When that server is gone, they
 * end immediately. Terraform continues, and the daemons of the next start adopt it through the journal.
 */
export async function runBuiltinDaemons(options: BuiltinOptions): Promise<BuiltinDaemons> {
  const firstParent = process.ppid; // before the first wait, because the server may end meanwhile
  const clock: Clock = options.clock ?? systemClock;
  const { daemons, done, stop } = await runDaemonGroup({
    adoptEveryMs: ADOPT_EVERY_MS,
    ...options,
    cacheDir: join(options.cacheDir, 'tf'),
    members: Array.from({ length: options.count }, (_, index) => ({
      name: `${options.namePrefix}-${index}`,
      workDir: join(options.cacheDir, `provisioner-${index}`, 'work'),
    })),
  });
  const ended = new AbortController();
  const parentAlive = options.parentAlive ?? (() => process.ppid === firstParent);
  const orphanhood = watchParent(daemons, {
    parentAlive,
    clock,
    signal: ended.signal,
    onOrphan: () => options.log.warn('the server is gone; running builds continue, and the next server adopts them'),
  });
  return {
    done: done.finally(() => {
      ended.abort(new AppError('canceled', 'All daemons have ended.'));
      return orphanhood;
    }),
    stop,
  };
}

async function watchParent(daemons: readonly ProvisionerDaemon[], watch: Watch): Promise<void> {
  const { clock, signal, parentAlive } = watch;
  while (!signal.aborted) {
    if (!parentAlive()) {
      watch.onOrphan();
      for (const daemon of daemons) daemon.abandon();
      return;
    }
    await clock.sleep(PARENT_POLL_MS, signal).catch(() => {});
  }
}

interface Watch {
  parentAlive: () => boolean;
  clock: Clock;
  signal: AbortSignal;
  onOrphan: () => void;
}
