import { join } from 'node:path';
import { AppError, type Clock, systemClock } from '@platform/kit';
import type { ProvisionerDaemon } from './daemon.ts';
import { type DaemonGroup, type GroupOptions, runDaemonGroup } from './group.ts';

const PARENT_POLL_MS = 1_000;
export const DEFAULT_LEASE_MS = 90_000;

export interface BuiltinOptions extends Omit<GroupOptions, 'members' | 'once'> {
  /** How many daemons this process runs. */
  count: number;
  /** Daemons are called `<namePrefix>-<index>`. */
  namePrefix: string;
  /** How long a run is kept for a server that is gone; default 90 s. */
  leaseMs?: number | undefined;
  /** Whether the server that started this process still runs. Default: the parent process is unchanged. */
  parentAlive?: (() => boolean) | undefined;
}

export interface BuiltinDaemons {
  /** Resolves when all have ended. */
  done: Promise<void>;
  stop: DaemonGroup['stop'];
}

/**
 * The server's own daemons: one process, one prepared cache, one runner. Sessions are in
 * `<cacheDir>/provisioner-<i>/work`. When the server is gone they finish what runs, deliver it to a restarted server
 * within the lease, and end.
 */
export async function runBuiltinDaemons(options: BuiltinOptions): Promise<BuiltinDaemons> {
  const clock: Clock = options.clock ?? systemClock;
  const { daemons, done, stop } = await runDaemonGroup({
    ...options,
    cacheDir: join(options.cacheDir, 'tf'),
    members: Array.from({ length: options.count }, (_, index) => ({
      name: `${options.namePrefix}-${index}`,
      workDir: join(options.cacheDir, `provisioner-${index}`, 'work'),
    })),
  });
  const ended = new AbortController();
  const firstParent = process.ppid;
  const parentAlive = options.parentAlive ?? (() => process.ppid === firstParent);
  const orphanhood = watchParent(daemons, {
    parentAlive,
    leaseMs: options.leaseMs ?? DEFAULT_LEASE_MS,
    clock,
    signal: ended.signal,
    onOrphan: () => options.log.warn('the server is gone; finishing what runs'),
  });
  return {
    done: done.finally(() => {
      ended.abort(new AppError('canceled', 'All daemons have ended.'));
      return orphanhood;
    }),
    stop,
  };
}

interface Watch {
  parentAlive: () => boolean;
  leaseMs: number;
  clock: Clock;
  signal: AbortSignal;
  onOrphan: () => void;
}

async function watchParent(daemons: readonly ProvisionerDaemon[], watch: Watch): Promise<void> {
  const { clock, signal } = watch;
  let orphan = false;
  let overSince: number | undefined;
  while (!signal.aborted) {
    await clock.sleep(PARENT_POLL_MS, signal).catch(() => {});
    if (!orphan && !watch.parentAlive()) {
      orphan = true;
      watch.onOrphan();
      for (const daemon of daemons) daemon.drain();
    }
    if (!orphan) continue;
    // A run may take as long as it takes; only its delivery has a limit, after which the journal keeps it.
    const waiting = daemons.every((daemon) => daemon.activeJobs() === 0 || daemon.awayMs() > watch.leaseMs);
    overSince = waiting ? (overSince ?? clock.monotonic()) : undefined;
    if (overSince !== undefined && clock.monotonic() - overSince > watch.leaseMs)
      for (const daemon of daemons) daemon.abandon();
  }
}
