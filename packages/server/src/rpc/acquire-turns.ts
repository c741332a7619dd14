import { AppError } from '@platform/kit';

/** Who cancels an acquire and opens the next at once is not refused because the first has not ended yet. */
const CHANGE_OVER_MS = 1_000;

/** The acquire that waits on a connection. */
export interface AcquireTurn {
  /** Aborted when its caller goes, asks for it by `leave`, or the connection takes no more jobs. */
  signal: AbortSignal;
  leave(): void;
  end(): void;
}

/** Lets one acquire at a time wait on a connection. */
export interface AcquireTurns {
  /**
   * Begins a turn, which must be ended. Rejects with AppError `conflict` where another goes on, undefined where the
   * caller went meanwhile.
   */
  begin(call: AbortSignal): Promise<AcquireTurn | undefined>;
  /** Ends the wait of the acquire that waits, and of all that come. */
  close(reason: Error): void;
}

export function createAcquireTurns(): AcquireTurns {
  let current: { over: Promise<void>; stop: AbortController } | undefined;
  let closed: Error | undefined;

  /** Until no acquire waits, or for as long as a change takes. */
  async function changeOver(call: AbortSignal): Promise<void> {
    let late = false;
    const { promise, resolve } = Promise.withResolvers<void>();
    const give = () => {
      late = true;
      resolve();
    };
    const timer = setTimeout(give, CHANGE_OVER_MS);
    call.addEventListener('abort', give, { once: true });
    while (current && !late) await Promise.race([current.over, promise]);
    clearTimeout(timer);
    call.removeEventListener('abort', give);
  }

  return {
    async begin(call) {
      if (current) await changeOver(call);
      if (call.aborted) return undefined;
      if (current) throw new AppError('conflict', 'This connection waits for a job already: one acquire at a time.');
      const stop = new AbortController();
      const { promise: over, resolve } = Promise.withResolvers<void>();
      const leave = () => stop.abort(new AppError('canceled', 'The daemon does not wait for a job any more.'));
      const mine = { over, stop };
      current = mine;
      if (closed) stop.abort(closed);
      else call.addEventListener('abort', leave, { once: true });
      return {
        signal: stop.signal,
        leave,
        end() {
          call.removeEventListener('abort', leave);
          if (current === mine) current = undefined;
          resolve();
        },
      };
    },
    close(reason) {
      closed ??= reason;
      current?.stop.abort(reason);
    },
  };
}
