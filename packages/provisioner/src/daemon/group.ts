import { systemClock } from '@ropewalk/kit';
import type { ProvisionerDaemon } from './daemon.ts';
import { ServerLink } from './link.ts';
import { findMachine } from './machine.ts';
import type { DaemonOptions } from './options.ts';

/** The time for killed jobs to report to the server. After that, the next daemon on this machine reports them. */
const KILLED_MS = 10_000;
/** The time for the first connection, before daemons look for running builds that they adopt. */
const CONNECT_MS = 1_000;
const STEPS = ['drain', 'cancelActive', 'kill', 'abandon'] as const;
export type StopStep = (typeof STEPS)[number];

export interface GroupOptions extends Omit<DaemonOptions, 'name' | 'workDir' | 'shared' | 'link'> {
  /** The daemons, each with its own name and directory. They share everything else. */
  members: readonly Pick<DaemonOptions, 'name' | 'workDir'>[];
  /** The time for killed jobs to report to the server, in ms. Default 10 s. */
  killedMs?: number | undefined;
}

export interface DaemonGroup {
  daemons: readonly ProvisionerDaemon[];
  /** Resolves when all have ended. If one fails, the others drain, and then this rejects with the reason. */
  done: Promise<void>;
  /**
   * The first call drains, the second cancels the running jobs, the third kills them, the fourth ends without waiting.
   * A call with a step goes at least that far. Returns the step.
   */
  stop(atLeast?: StopStep): StopStep;
}

/**
 * Runs several daemons in one process, with one terraform, one cache and one runner. The daemons register before this
 * loads the code that runs jobs, so that many processes that start at the same time all register early. @throws AppError without
 * terraform.
 */
export async function runDaemonGroup({
  members,
  killedMs = KILLED_MS,
  ...options
}: GroupOptions): Promise<DaemonGroup> {
  const { log, clock = systemClock } = options;
  const machine = await findMachine(options);
  const links = members.map(
    ({ name }) => new ServerLink({ ...options, name, log: log.child({ daemon: name }), clock }),
  );
  for (const link of links) link.start(machine.engines.list);
  const startDaemons = async () => {
    const tried = new AbortController();
    await Promise.race([Promise.all(links.map((link) => link.tried)), clock.sleep(CONNECT_MS, tried.signal)]);
    tried.abort();
    const { createProcessContext, runProvisionerDaemon } = await import('./daemon.ts');
    const shared = createProcessContext(options, machine);
    const daemons = members.map((member, at) =>
      runProvisionerDaemon({ ...options, ...member, shared, link: links[at] }),
    );
    return { shared, daemons };
  };
  const { shared, daemons } = await startDaemons().catch(async (err) => {
    await Promise.all(links.map((link) => link.close()));
    throw err;
  });
  for (const { done } of daemons)
    done.catch(() => {
      for (const other of daemons) other.drain();
    });
  const done = Promise.allSettled(daemons.map((daemon) => daemon.done)).then((ends) => {
    shared.runner.release();
    for (const end of ends) if (end.status === 'rejected') throw end.reason;
  });
  done.catch(() => {});
  let next = 0;
  return {
    daemons,
    done,
    stop(atLeast = 'drain') {
      const at = Math.min(Math.max(next, STEPS.indexOf(atLeast)), STEPS.length - 1);
      next = at + 1;
      const step = STEPS[at]!;
      for (const daemon of daemons) daemon[step]();
      if (step === 'kill')
        setTimeout(() => {
          for (const daemon of daemons) daemon.abandon();
        }, killedMs).unref();
      return step;
    },
  };
}
