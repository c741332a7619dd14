import { AppError } from '@ropewalk/kit';

/** How long an acquire waits for the one before it to end. A daemon may cancel an acquire and open the next immediately. */
const CHANGE_OVER_MS = 1_000;

/** The acquire that waits on a connection. */
export interface AcquireTurn {
  /** Aborted when the caller is gone or calls `leave`, or when the connection takes no more jobs. */
  signal: AbortSignal;
  leave(): void;
  end(): void;
}

/** Lets one acquire at a time wait on a connection. */
export interface AcquireTurns {
  /**
   * Begins a turn, which the caller must end. Undefined if the caller is gone meanwhile.
   * @throws AppError `conflict` if another acquire goes on waiting
   */
  begin(call: AbortSignal): Promise<AcquireTurn | undefined>;
  /** Ends the current turn and every later one. */
  close(reason: Error): void;
}

export function createAcquireTurns(): AcquireTurns {
  let current: { over: Promise<void>; stop: AbortController } | undefined;
  let closed: Error | undefined;

  /** Resolves once no acquire waits, or after CHANGE_OVER_MS. */
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
      if (current)
        throw new AppError('conflict', 'This connection already waits for a job. It can have one acquire at a time.');
      const stop = new AbortController();
      const { promise: over, resolve } = Promise.withResolvers<void>();
      const leave = () => stop.abort(new AppError('canceled', 'The daemon stopped waiting for a job.'));
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
