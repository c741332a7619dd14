import { randomBytes } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { encodeHello, readWelcome } from './hello.ts';
import { ResumableStream, ResumeError, type WindowBudget } from './stream.ts';

/**
 * For how long either side keeps a session without a carrier. Promised is a minute without the server; 30 s more are for
 * both sides to come back, and 10 s for one side that notices the loss before the other.
 */
export const GRACE_MS = 100_000;
const PING_MS = 5_000;
/** Longer silence than this, with pings unanswered, is a dead carrier. */
const SILENCE_MS = 12_000;
const WELCOME_MS = 10_000;
const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 2_000;

export interface ResumeOptions {
  /** Brings a carrier to the other end, for a new session or for one that goes on. */
  dial(kind: 'new' | 'attach', signal: AbortSignal): Promise<Duplex>;
  /** Whether a carrier may come later, after this error of dial. */
  mayRetry(err: unknown): boolean;
  signal?: AbortSignal;
  graceMs?: number;
  budget?: WindowBudget;
  /** Told when the carrier is lost, and when another one took its place. */
  onLost?(): void;
  onResumed?(): void;
}

/**
 * Opens a session that outlives its carriers. Rejects with what the first dial rejects with; later the stream is
 * destroyed with ResumeError('lost') when no carrier came for `graceMs`, or with what dial says that is not to be retried.
 */
export async function connectResumable(options: ResumeOptions): Promise<ResumableStream> {
  const id = randomBytes(16);
  const secret = randomBytes(32);
  const ended = new AbortController();
  const first = await options.dial('new', options.signal ?? ended.signal);
  const stream = new ResumableStream(options.budget);
  first.write(encodeHello({ kind: 'new', id, secret, received: 0 }));
  stream.attach(first, 0);

  const attach = async (carrier: Duplex): Promise<void> => {
    carrier.write(encodeHello({ kind: 'attach', id, secret, received: stream.received }));
    const received = await readWelcome(carrier, { timeoutMs: WELCOME_MS, signal: ended.signal });
    stream.attach(carrier, received);
  };
  const resume = async (): Promise<void> => {
    const deadline = performance.now() + (options.graceMs ?? GRACE_MS);
    let wait = FIRST_WAIT_MS;
    for (;;) {
      let dialed = false;
      try {
        const carrier = await options.dial('attach', ended.signal);
        dialed = true;
        await attach(carrier);
        options.onResumed?.();
        return;
      } catch (err) {
        if (stream.destroyed) return;
        // a carrier that breaks before it is of use may be followed by a better one
        if (err instanceof ResumeError || !(dialed || options.mayRetry(err))) {
          stream.destroy(err as Error);
          return;
        }
        if (performance.now() + wait > deadline) {
          stream.destroy(
            new ResumeError('lost', 'The connection was lost and could not be made again.', { cause: err }),
          );
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
