import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Lifecycle_State } from '@ropewalk/wire/proto/agent';
import { Notifier } from './notifier.ts';
import type { Routine } from './wire-types.ts';

export interface Lifecycle {
  readonly state: Lifecycle_State;
  /** Enters a state. Does nothing if it is not ahead of the current one. */
  set(state: Lifecycle_State): void;
  /** Calls back at each new state. Returns a function that stops this. */
  onChange(listener: (state: Lifecycle_State) => void): () => void;
  /** Resolves when the server has received every state. */
  reported(): Promise<void>;
  run: Routine;
}

/**
 * Reports the agent's states to the server one by one in order. States that could not be reported wait for the next
 * connection.
 */
export function createLifecycle(): Lifecycle {
  let state: Lifecycle_State = Lifecycle_State.CREATED;
  const backlog: { state: Lifecycle_State; changedAt: Date }[] = [];
  const added = new Notifier();
  const listeners = new Set<(state: Lifecycle_State) => void>();
  let waiters: (() => void)[] = [];
  return {
    get state() {
      return state;
    },
    set(next) {
      if (next <= state) return;
      state = next;
      backlog.push({ state: next, changedAt: new Date() });
      added.notify();
      for (const listener of [...listeners]) listener(next);
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    reported() {
      if (backlog.length === 0) return Promise.resolve();
      return new Promise((resolve) => waiters.push(resolve));
    },
    async run(client, signal) {
      for (;;) {
        while (backlog.length > 0) {
          const first = backlog[0]!;
          const lifecycle = { state: first.state, changedAt: timestampFromDate(first.changedAt) };
          await client.updateLifecycle({ lifecycle }, { signal });
          backlog.shift();
        }
        for (const resolve of waiters.splice(0)) resolve();
        waiters = [];
        await added.wait(signal);
      }
    },
  };
}
