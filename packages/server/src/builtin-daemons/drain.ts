import { formatDuration, type Logger } from '@ropewalk/kit';
import type { BuiltinDaemons } from './builtin-daemons.ts';

/** For Terraform to end after its interrupt (3 min, then it is killed) and for its state to arrive. */
export const DRAIN_CANCEL_MS = 200_000;
/** For the verdicts of killed builds to arrive. */
const KILL_MS = 15_000;
/** The longest that a timer takes. */
const MAX_MS = 2 ** 31 - 1;
/** Idle daemons end sooner: nothing is said then. */
const SAY_AFTER_MS = 1_000;

const STEPS = ['drain', 'cancel', 'kill'] as const;
const SAID = {
  drain: 'waiting for running builds of the built-in daemons; a second signal cancels them',
  cancel: 'canceling running builds; a further signal kills them',
  kill: 'killing running builds',
} as const;

export interface DrainOptions {
  daemons: Pick<BuiltinDaemons, 'end'> | undefined;
  /** --provisioner-drain-timeout. With 0 nothing is waited for: the daemons finish what runs without the server. */
  limitMs: number;
  /** --shutdown-delay */
  delayMs: number;
  /** Called with the first call: from then on the server reports that it is not ready. */
  onBegin(): void;
  log: Logger;
}

/**
 * Ends the built-in daemons before the server itself, which goes on serving: the first call lets them finish what runs,
 * the second cancels it, the third kills it. A step whose time is over is followed by the next one. Resolves when the
 * daemons have ended, at the latest when the last step's time is over, and not before load balancers had time to notice
 * that the server is not ready. `hurried` and a second call leave them no time.
 */
export function createDrain({ daemons, limitMs, delayMs, onBegin, log }: DrainOptions) {
  const over = Promise.withResolvers<void>();
  const noticed = Promise.withResolvers<void>();
  const limits = { drain: Math.min(limitMs, MAX_MS), cancel: DRAIN_CANCEL_MS, kill: KILL_MS };
  let next = 0;
  let timer: NodeJS.Timeout | undefined;
  let saying: NodeJS.Timeout | undefined;
  const finish = () => {
    clearTimeout(timer);
    clearTimeout(saying);
    over.resolve();
  };
  let noticing: NodeJS.Timeout | undefined;
  const begin = (hurried: boolean) => {
    onBegin();
    if (hurried || delayMs <= 0) return noticed.resolve();
    log.info('not ready any more, and serving until load balancers have noticed', { delay: formatDuration(delayMs) });
    noticing = setTimeout(noticed.resolve, Math.min(delayMs, MAX_MS));
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
  return async ({ hurried = false } = {}): Promise<void> => {
    if (next === 0) begin(hurried);
    else {
      clearTimeout(noticing);
      noticed.resolve();
    }
    step();
    await Promise.all([over.promise, noticed.promise]);
  };
}
