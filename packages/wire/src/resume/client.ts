import { randomBytes } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { encodeHello, readWelcome } from './hello.ts';
import { ResumableStream, ResumeError, type WindowBudget } from './stream.ts';

/**
 * How long either side keeps a session without a connection, in ms. The promise is one minute without the server. 30 s
 * more let both sides come back, and 10 s cover one side that notices the loss before the other.
 */
export const GRACE_MS = 100_000;
const PING_MS = 5_000;
/** A connection that is silent for longer than this, in ms, with unanswered pings, is dead. */
const SILENCE_MS = 12_000;
const WELCOME_MS = 10_000;
const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 2_000;

export interface ResumeOptions {
  /** Opens a connection to the other end, for a new session or to resume one. */
  dial(kind: 'new' | 'attach', signal: AbortSignal): Promise<Duplex>;
  /** Whether another connection may succeed after this error of `dial`. */
  mayRetry(err: unknown): boolean;
  signal?: AbortSignal;
  graceMs?: number;
  budget?: WindowBudget;
  /** Called when the connection is lost, and when another one has replaced it. */
  onLost?(): void;
  onResumed?(): void;
}

/**
 * Opens a session that outlives its connections. Rejects with the error of the first dial. Later the stream is
 * destroyed with ResumeError('lost') if no connection succeeded within `graceMs`, or with an error of `dial` that does
 * not allow a retry.
 */
export async function connectResumable(options: ResumeOptions): Promise<ResumableStream> {
  const id = randomBytes(16);
  const secret = randomBytes(32);
  const ended = new AbortController();
  const first = await options.dial('new', options.signal ?? ended.signal);
  const stream = new ResumableStream(options.budget);
  const begin = (connection: Duplex): void => {
    connection.write(encodeHello({ kind: 'new', id, secret, received: 0 }));
    stream.attach(connection, 0);
  };
  begin(first);

  const attach = async (connection: Duplex): Promise<void> => {
    connection.write(encodeHello({ kind: 'attach', id, secret, received: stream.received }));
    const received = await readWelcome(connection, { timeoutMs: WELCOME_MS, signal: ended.signal });
    stream.attach(connection, received);
  };
  const resume = async (): Promise<void> => {
    const deadline = performance.now() + (options.graceMs ?? GRACE_MS);
    let wait = FIRST_WAIT_MS;
    for (;;) {
      let dialed = false;
      try {
        const connection = await options.dial('attach', ended.signal);
        dialed = true;
        await attach(connection).catch(async (err) => {
          // the first connection broke before the other end had read of the session
          if (stream.isKnown || !(err instanceof ResumeError && err.code === 'refused')) throw err;
          dialed = false;
          begin(await options.dial('new', ended.signal));
        });
        options.onResumed?.();
        return;
      } catch (err) {
        if (stream.destroyed) return;
        // A connection that breaks before the session uses it may be followed by a better one.
        if (err instanceof ResumeError || !(dialed || options.mayRetry(err))) {
          stream.destroy(err as Error);
          return;
        }
        if (performance.now() + wait > deadline) {
          stream.destroy(new ResumeError('lost', 'The connection was lost and could not be restored.', { cause: err }));
          return;
        }
      }
      await pause(wait * (0.5 + Math.random() / 2), ended.signal);
      wait = Math.min(wait * 1.6, LONGEST_WAIT_MS);
    }
  };
  stream.on('detached', () => {
    if (stream.destroyed) return;
    options.onLost?.();
    void resume();
  });
  const watch = setInterval(() => {
    if (!stream.attached) return;
    const silent = performance.now() - stream.heardAt;
    if (silent > SILENCE_MS) stream.detach();
    else if (silent > PING_MS / 2) stream.ping();
  }, PING_MS).unref();
  stream.on('close', () => {
    clearInterval(watch);
    ended.abort(new ResumeError('closed', 'the session has ended'));
  });
  return stream;
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done, { once: true });
  });
}
