import { AgentLife } from './life.ts';
import type { AgentOptions } from './options.ts';
import { sweepScratch } from './scratch.ts';

export interface RunningAgent {
  /** Resolves when the agent has stopped. Never rejects: the agent logs failures and retries. */
  readonly done: Promise<void>;
  /** Runs stop scripts, reports to the server, and ends sessions and the connection. */
  stop(): Promise<void>;
}

/**
 * Runs a workspace's agent: connects to the server, reconnects until stopped, and serves the workspace over the
 * connection.
 */
export function runAgent(options: AgentOptions): RunningAgent {
  sweepScratch();
  let life: AgentLife;
  let stopping = false;
  let between: Promise<void> | undefined;
  const done = Promise.withResolvers<void>();
  const begin = () => {
    const mine = new AgentLife(options, startOver);
    life = mine;
    void mine.done.then(() => {
      if (life === mine && !between) done.resolve();
    });
  };
  function startOver(reason: string): void {
    if (stopping || between) return;
    options.log.info('the agent is starting over', { reason });
    between = life.end().then(() => {
      between = undefined;
      if (stopping) done.resolve();
      else begin();
    });
  }
  begin();
  return {
    done: done.promise,
    async stop() {
      stopping = true;
      if (between) await between;
      else await life.stop();
    },
  };
}
