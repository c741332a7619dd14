import { join } from 'node:path';
import { AppError, type Clock, daemonUid, type Logger, systemClock, type UidBlock } from '@ropewalk/kit';
import type { ProvisionerDaemon } from './daemon.ts';
import { type DaemonGroup, type GroupOptions, runDaemonGroup } from './group.ts';
import type { Successors } from './link.ts';

const PARENT_POLL_MS = 250;
/** The interval in which daemons look for jobs that the daemons of a killed server left behind. */
const ADOPT_EVERY_MS = 2_000;
/**
 * How long daemons without their server try to reach another one. It is less than the lease of a job, so the daemons of
 * the next start can still adopt it.
 */
const MAX_AWAY_MS = 60_000;

export interface BuiltinOptions extends Omit<GroupOptions, 'members' | 'once'> {
  /** The number of daemons in this process. */
  count: number;
  /** The first part of the daemons' names: `<namePrefix>-<index>`. */
  namePrefix: string;
  /** Whether the server that started this process still runs. The process checks that its parent is unchanged, too. */
  parentAlive?: (() => boolean) | undefined;
  /** The other servers of the deployment, as far as the server has named them. */
  successors?: (() => Successors | undefined) | undefined;
}

export interface BuiltinDaemons {
  /** Resolves when all have ended. */
  done: Promise<void>;
  stop: DaemonGroup['stop'];
}

/**
 * Changes this process, which root started, to the daemon's user. The process joins the groups of all builds, because
 * it reads their files. It changes its uid without executing another program, so the kernel makes it non-dumpable: no
 * other process of its uid can read its memory or environment.
 */
export function becomeDaemon(block: UidBlock): void {
  const uid = daemonUid(block);
  // builds must be able to enter the daemon's folders
  process.umask(0o022);
  process.setgroups!(Array.from({ length: block.count }, (_, index) => block.first + index));
  process.setgid!(uid);
  process.setuid!(uid);
}

/**
 * Starts the server's own daemons. They share this process, one cache and one runner. Their sessions are in
 * `<cacheDir>/provisioner-<i>/work`. Their secret belongs to one start of the server. When that server is gone, they
 * finish their jobs with another server of the deployment. If there is none, they end immediately. Terraform continues,
 * and the daemons of the next start adopt it through the journal.
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
  if (options.launcherPath) {
    const { Launcher } = await import('../isolation/client.ts');
    // not awaited: it ends with the signal
    void new Launcher(options.launcherPath).stay(ended.signal);
  }
  const parentAlive = () => process.ppid === firstParent && (options.parentAlive?.() ?? true);
  const orphanhood = watchParent({
    parentAlive,
    clock,
    signal: ended.signal,
    onOrphan: () => finishOrAbandon(daemons, options.successors?.(), { clock, log: options.log, signal: ended.signal }),
  });
  return {
    done: done.finally(() => {
      ended.abort(new AppError('canceled', 'All daemons have ended.'));
      return orphanhood;
    }),
    stop,
  };
}

/** Resolves when the daemons have ended, or will without further steps. */
async function finishOrAbandon(
  daemons: readonly ProvisionerDaemon[],
  successors: Successors | undefined,
  { clock, log, signal }: { clock: Clock; log: Logger; signal: AbortSignal },
): Promise<void> {
  if (!successors || successors.urls.length === 0) {
    log.warn('the server is gone; running builds continue, and the next server adopts them');
    for (const daemon of daemons) daemon.abandon();
    return;
  }
  log.warn('the server is gone; finishing the running builds with another server', {
    servers: successors.urls.join(', '),
  });
  for (const daemon of daemons) daemon.finishWith(successors);
  while (!signal.aborted) {
    for (const daemon of daemons) if (daemon.awayMs() > MAX_AWAY_MS) daemon.abandon();
    await clock.sleep(PARENT_POLL_MS, signal).catch(() => {});
  }
}

async function watchParent(watch: Watch): Promise<void> {
  const { clock, signal, parentAlive } = watch;
  while (!signal.aborted) {
    if (!parentAlive()) return watch.onOrphan();
    await clock.sleep(PARENT_POLL_MS, signal).catch(() => {});
  }
}

interface Watch {
  parentAlive: () => boolean;
  clock: Clock;
  signal: AbortSignal;
  onOrphan: () => Promise<void>;
}
