import { formatDuration, type Logger } from '@platform/kit';
import type { BuiltinDaemons } from './builtin-daemons.ts';

/** For Terraform to end after its interrupt (3 min, then it is killed) and for its state to arrive. */
export const DRAIN_CANCEL_MS = 200_000;
/** For the verdicts of killed builds to arrive. */
const KILL_MS = 15_000;
/** The longest that a timer takes. */
const MOST_MS = 2 ** 31 - 1;
/** Idle daemons end sooner: nothing is said then. */
const SAY_AFTER_MS = 1_000;

const STEPS = ['drain', 'cancel', 'kill'] as const;
const SAID = {
  drain: 'waiting for running builds of the built-in daemons; a second signal cancels them',
  cancel: 'canceling running builds; a further signal kills them',
  kill: 'killing running builds',
} as const;

/**
 * Ends the built-in daemons before the server itself, which goes on serving: the first call lets them finish what runs,
 * the second cancels it, the third kills it. A step whose time is over is followed by the next one. Resolves when the
 * daemons have ended, at the latest when the last step's time is over. With a limit of 0 nothing is waited for: the
 * daemons finish what runs without the server.
 */
export function createDrain(daemons: Pick<BuiltinDaemons, 'end'> | undefined, limitMs: number, log: Logger) {
  const over = Promise.withResolvers<void>();
  const limits = { drain: Math.min(limitMs, MOST_MS), cancel: DRAIN_CANCEL_MS, kill: KILL_MS };
  let next = 0;
  let timer: NodeJS.Timeout | undefined;
  let saying: NodeJS.Timeout | undefined;
  const finish = () => {
    clearTimeout(timer);
    clearTimeout(saying);
    over.resolve();
  };
  const step = () => {
    const name = STEPS[next++];
    clearTimeout(timer);
    clearTimeout(saying);
    if (!daemons || limitMs <= 0 || !name) return finish();
    const say = () => log.info(SAID[name], { limit: formatDuration(limits[name]) });
    if (name === 'drain') saying = setTimeout(say, SAY_AFTER_MS);
    else say();
    void daemons.end(name).then(finish);
    timer = setTimeout(step, limits[name]);
  };
  return (): Promise<void> => {
    step();
    return over.promise;
  };
}
