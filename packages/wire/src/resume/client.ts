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
/** A move that takes longer, in ms, is given up: the session waits for it. */
const MOVE_MS = 3_000;
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
  return (await connectSession(options)).stream;
}

/** As connectResumable, for callers that move the session to other connections while it has one. */
export async function connectSession(options: ResumeOptions): Promise<ResumableSession> {
  const ended = new AbortController();
  const first = await options.dial('new', options.signal ?? ended.signal);
  return new ResumableSession(first, options, ended);
}

/** The dialing side of a session. */
export class ResumableSession {
  readonly stream: ResumableStream;
  readonly #options: ResumeOptions;
  readonly #id = randomBytes(16);
  readonly #secret = randomBytes(32);
  readonly #ended: AbortController;
  /** The move that is under way. It never rejects. */
  #moving: Promise<void> | undefined;

  constructor(first: Duplex, options: ResumeOptions, ended: AbortController) {
    this.#options = options;
    this.#ended = ended;
    this.stream = new ResumableStream(options.budget);
    this.#begin(first);
    this.stream.on('detached', () => void this.#detached());
    const watch = setInterval(() => this.#watch(), PING_MS).unref();
    this.stream.on('close', () => {
      clearInterval(watch);
      ended.abort(new ResumeError('closed', 'the session has ended'));
    });
  }

  /**
   * Continues the session at the same byte on a connection that leads to the same peer on another way. Rejects if that
   * fails, or if the session has no connection now, and destroys the connection then. The session continues in any case:
   * on the connection that it had, or on one that is dialed if the peer has given that up meanwhile.
   */
  async move(connection: Duplex): Promise<void> {
    if (!this.stream.attached || this.#moving) {
      connection.destroy();
      throw new ResumeError('closed', 'the session cannot be moved now');
    }
    // Bytes that arrived on the old connection after the hello would arrive again on the new one.
    const release = this.stream.hold();
    const moved = this.#attach(connection, MOVE_MS, this.#ended.signal).catch((err) => {
      connection.destroy();
      release();
      throw err;
    });
    const settled = () => {
      this.#moving = undefined;
    };
    this.#moving = moved.then(settled, settled);
    await moved;
  }

  /** Dials a connection as after a loss, for `move`. */
  dial(signal: AbortSignal): Promise<Duplex> {
    return this.#options.dial('attach', AbortSignal.any([signal, this.#ended.signal]));
  }

  #begin(connection: Duplex): void {
    connection.write(encodeHello({ kind: 'new', id: this.#id, secret: this.#secret, received: 0 }));
    this.stream.attach(connection, 0);
  }

  async #attach(connection: Duplex, timeoutMs: number, signal: AbortSignal): Promise<void> {
    const { stream } = this;
    connection.write(encodeHello({ kind: 'attach', id: this.#id, secret: this.#secret, received: stream.received }));
    const received = await readWelcome(connection, { timeoutMs, signal });
    stream.attach(connection, received);
  }

  /** The connection is gone. During a move, the peer gives it up when it takes the new one, whose answer may come later. */
  async #detached(): Promise<void> {
    await this.#moving;
    if (this.stream.destroyed || this.stream.attached) return;
    this.#options.onLost?.();
    await this.#resume();
  }

  async #resume(): Promise<void> {
    const { stream } = this;
    const { dial, mayRetry, onResumed, graceMs = GRACE_MS } = this.#options;
    const { signal } = this.#ended;
    const deadline = performance.now() + graceMs;
    let wait = FIRST_WAIT_MS;
    for (;;) {
      let dialed = false;
      try {
        const connection = await dial('attach', signal);
        dialed = true;
        await this.#attach(connection, WELCOME_MS, signal).catch(async (err) => {
          // the first connection broke before the other end had read of the session
          if (stream.isKnown || !(err instanceof ResumeError && err.code === 'refused')) throw err;
          dialed = false;
          this.#begin(await dial('new', signal));
        });
        break;
      } catch (err) {
        if (stream.destroyed) return;
        // A connection that breaks before the session uses it may be followed by a better one.
        if (err instanceof ResumeError || !(dialed || mayRetry(err))) {
          stream.destroy(err as Error);
          return;
        }
        if (performance.now() + wait > deadline) {
          stream.destroy(new ResumeError('lost', 'The connection was lost and could not be restored.', { cause: err }));
          return;
        }
      }
      await pause(wait * (0.5 + Math.random() / 2), signal);
      wait = Math.min(wait * 1.6, LONGEST_WAIT_MS);
    }
    onResumed?.();
  }

  #watch(): void {
    const { stream } = this;
    if (!stream.attached) return;
    const silent = performance.now() - stream.heardAt;
    if (silent > SILENCE_MS) stream.detach();
    else if (silent > PING_MS / 2) stream.ping();
  }
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
