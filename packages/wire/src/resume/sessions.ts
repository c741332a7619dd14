import { timingSafeEqual } from 'node:crypto';
import type { Duplex } from 'node:stream';
import type { TunnelOptions } from '../tunnel.ts';
import { GRACE_MS } from './client.ts';
import { endConnection } from './end-connection.ts';
import { encodeRefusal, encodeWelcome, readHello } from './hello.ts';
import { ResumableStream, ResumeError, type WindowBudget } from './stream.ts';

/** The owner of a session, as the server reports it after authorizing the connection. Never the client's own claim. */
export interface SessionHolder {
  user: string;
  /** The API key that the last connection was opened with. */
  key: string;
}

export interface ResumableSessionsOptions {
  graceMs?: number;
  /** The limit of sessions (default 1,000) and of sessions without a connection (default 200). */
  most?: number;
  mostDetached?: number;
  budget?: WindowBudget;
}

interface Session {
  stream: ResumableStream;
  secret: Buffer;
  holder: SessionHolder;
  timer: NodeJS.Timeout | undefined;
}

/**
 * The sessions of the accepting side: keeps them while they have no connection, and lets only their holder resume them.
 */
export class ResumableSessions {
  readonly #sessions = new Map<string, Session>();
  readonly #starting = new Set<ResumableStream>();
  readonly #options: Required<ResumableSessionsOptions>;

  constructor(options: ResumableSessionsOptions = {}) {
    this.#options = {
      graceMs: GRACE_MS,
      most: 1_000,
      mostDetached: 200,
      budget: { left: 64 * 1024 * 1024 },
      ...options,
    };
  }

  get size(): number {
    return this.#sessions.size + this.#starting.size;
  }

  /** Whether the limit is reached. Check it before `serve`, so that the rejection has a text. */
  get full(): boolean {
    return this.size >= this.#options.most;
  }

  /** Accepts the first connection of a new session, which begins when the client has sent its hello. */
  serve(connection: Duplex, holder: SessionHolder): ResumableStream {
    const stream = new ResumableStream(this.#options.budget);
    this.#starting.add(stream);
    stream.on('close', () => this.#starting.delete(stream));
    readHello(connection)
      .then((hello) => {
        const id = hello.id.toString('hex');
        if (hello.kind !== 'new' || this.#sessions.has(id)) throw new ResumeError('protocol', 'not a new session');
        this.#starting.delete(stream);
        const session: Session = { stream, secret: hello.secret, holder, timer: undefined };
        if (stream.destroyed) throw new ResumeError('closed', 'the session has ended');
        this.#sessions.set(id, session);
        stream.on('detached', () => this.#detached(session));
        stream.on('attached', () => {
          clearTimeout(session.timer);
          session.timer = undefined;
        });
        stream.on('close', () => {
          clearTimeout(session.timer);
          this.#sessions.delete(id);
        });
        stream.attach(connection, 0);
      })
      .catch((err: Error) => {
        connection.destroy();
        stream.destroy(err);
      });
    return stream;
  }

  /**
   * Accepts another connection for an existing session, which gives up the one that it has. Without a holder, the session
   * keeps the one that it has. Returns the session's stream, or undefined after a rejection. Never throws: the client
   * receives the reason for a rejection.
   */
  async attach(
    connection: Duplex,
    holder?: SessionHolder,
    options: TunnelOptions = {},
  ): Promise<ResumableStream | undefined> {
    const refuse = (text: string) => {
      connection.write(encodeRefusal(text));
      endConnection(connection);
    };
    try {
      const hello = await readHello(connection, options);
      const session = this.#sessions.get(hello.id.toString('hex'));
      const isOther = holder !== undefined && session?.holder.user !== holder.user;
      // One answer for all cases, so that nobody can find out which sessions exist.
      if (!session || !timingSafeEqual(session.secret, hello.secret) || isOther) {
        return void refuse('The session has ended. It had no connection for too long, or the workspace was restarted.');
      }
      if (holder) session.holder = holder;
      connection.write(encodeWelcome(session.stream.received));
      session.stream.attach(connection, hello.received);
      return session.stream;
    } catch (err) {
      if (connection.destroyed) return undefined;
      refuse(err instanceof ResumeError ? err.message : 'The session cannot be resumed.');
      return undefined;
    }
  }

  /** Ends the sessions of holders who lost access. */
  forget(gone: (holder: SessionHolder) => boolean): void {
    for (const { stream, holder } of [...this.#sessions.values()]) {
      if (gone(holder)) stream.destroy(new ResumeError('refused', 'access to this session was revoked'));
    }
  }

  close(): void {
    for (const stream of this.#starting) stream.destroy();
    for (const { stream } of [...this.#sessions.values()]) stream.destroy();
  }

  #detached(session: Session): void {
    clearTimeout(session.timer);
    const end = () => session.stream.destroy(new ResumeError('lost', 'no connection for the session came in time'));
    session.timer = setTimeout(end, this.#options.graceMs).unref();
    const detached = [...this.#sessions.values()].filter(({ timer }) => timer !== undefined);
    // These are in the order of their start, not of their loss. That is good enough for a limit.
    if (detached.length > this.#options.mostDetached) detached[0]!.stream.destroy(new ResumeError('lost', 'too many'));
  }
}
