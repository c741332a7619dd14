import type { TaskReport } from '@ropewalk/mcp/tool';

/** The states by upstream's numbers. */
const STATES = { working: 0, idle: 1, complete: 2, failure: 3 } as const;

/** A state that the screen of the coding agent shows, or a message of a person to it. */
export type Observation = { state: 'working' | 'idle' } | { message: number };

interface Sent {
  state: TaskReport['state'];
  summary: string;
  link: string;
}

export interface Reporter {
  /** Sends what the coding agent reports about itself. Rejects if the workspace agent does not accept it. */
  report(report: TaskReport): Promise<void>;
  /** Sends what its AgentAPI shows. Reports that say nothing new are left out. */
  observe(observation: Observation): Promise<void>;
}

/**
 * Sends reports about a task in order, and none twice in a row.
 * @param watched whether `observe` is called. Then "idle" of the coding agent counts as "working": the screen shows when it
 *   really waits
 */
export function createReporter(
  slug: string,
  {
    watched,
    send,
  }: {
    watched: boolean;
    send(update: { slug: string; state: number; message: string; uri: string }): Promise<unknown>;
  },
): Reporter {
  let last: Sent | undefined;
  let newestMessage = -1;
  let sending: Promise<unknown> = Promise.resolve();
  const push = async (next: Sent): Promise<void> => {
    if (last && last.state === next.state && last.summary === next.summary && last.link === next.link) return;
    const before = last;
    last = next;
    const sent = sending.then(() => send({ slug, state: STATES[next.state], message: next.summary, uri: next.link }));
    sending = sent.catch(() => {});
    try {
      await sent;
    } catch (err) {
      // the same report again is not a copy of one that arrived
      if (last === next) last = before;
      throw err;
    }
  };
  const keep = (state: TaskReport['state']): Sent => ({ state, summary: last?.summary ?? '', link: last?.link ?? '' });
  return {
    report: ({ state, summary, link }) =>
      push({ state: watched && state === 'idle' ? 'working' : state, summary, link }),
    async observe(observation) {
      if ('message' in observation) {
        if (observation.message <= newestMessage) return;
        newestMessage = observation.message;
        return push(keep('working'));
      }
      // a person who types changes the screen, too. So a screen that moves says only at first that the agent works
      if (observation.state === 'working' && last) return;
      return push(keep(observation.state));
    },
  };
}
