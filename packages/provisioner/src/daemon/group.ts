import { createShared, type DaemonOptions, type ProvisionerDaemon, runProvisionerDaemon } from './daemon.ts';

/** After that the next daemon on this machine tells it. */
const KILLED_MS = 10_000;
const STEPS = ['drain', 'cancelActive', 'kill', 'abandon'] as const;
export type StopStep = (typeof STEPS)[number];

export interface GroupOptions extends Omit<DaemonOptions, 'name' | 'workDir' | 'shared'> {
  /** Each with a name and a directory of its own; everything else is shared. */
  members: readonly Pick<DaemonOptions, 'name' | 'workDir'>[];
  /** Milliseconds that killed jobs may take to tell the server; default 10 s. */
  killedMs?: number | undefined;
}

export interface DaemonGroup {
  daemons: readonly ProvisionerDaemon[];
  /** Resolves when all have ended. When one can not go on, the others drain, and then it rejects with the reason. */
  done: Promise<void>;
  /**
   * The first call drains, the second cancels what runs, the third kills it, the fourth ends without waiting; a call
   * with a step goes at least that far. Gives the step that was taken.
   */
  stop(atLeast?: StopStep): StopStep;
}

/** Several daemons in one process, with one terraform, one prepared cache and one runner. @throws AppError without terraform. */
export async function runDaemonGroup({
  members,
  killedMs = KILLED_MS,
  ...options
}: GroupOptions): Promise<DaemonGroup> {
  const shared = await createShared(options);
  const daemons = members.map((member) => runProvisionerDaemon({ ...options, ...member, shared }));
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
