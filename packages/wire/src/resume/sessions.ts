import { timingSafeEqual } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { endCarrier } from './carrier.ts';
import { GRACE_MS } from './client.ts';
import { encodeRefusal, encodeWelcome, readHello } from './hello.ts';
import { ResumableStream, ResumeError, type WindowBudget } from './stream.ts';

/** Who a session belongs to, as the server says that has authorised the carrier; never the client's own word. */
export interface SessionHolder {
  user: string;
  /** The API key that the last carrier was opened with. */
  key: string;
}

export interface ResumableSessionsOptions {
  graceMs?: number;
  /** Sessions at a time (1,000), and those without a carrier among them (200). */
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

/** The sessions of one side that takes carriers: keeps them while they have none, and lets only their holder go on. */
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

  /** Whether another session may begin; to be asked before serve, so that a refusal is one in words. */
  get full(): boolean {
    return this.size >= this.#options.most;
  }

  /** Takes the first carrier of a new session, which begins when the client has shown itself on it. */
  serve(carrier: Duplex, holder: SessionHolder): ResumableStream {
    const stream = new ResumableStream(this.#options.budget);
    this.#starting.add(stream);
    stream.on('close', () => this.#starting.delete(stream));
    readHello(carrier)
      .then((hello) => {
        const id = hello.id.toString('hex');
        if (hello.kind !== 'new' || this.#sessions.has(id)) throw new ResumeError('protocol', 'not a new session');
        this.#starting.delete(stream);
        const session: Session = { stream, secret: hello.secret, holder, timer: undefined };
        if (stream.destroyed) throw new ResumeError('closed', 'the session has ended');
        this.#sessions.set(id, session);
        stream.on('detached', () => this.#detached(session));
        stream.on('close', () => {
          clearTimeout(session.timer);
          this.#sessions.delete(id);
        });
        stream.attach(carrier, 0);
      })
      .catch((err: Error) => {
        carrier.destroy();
        stream.destroy(err);
      });
    return stream;
  }

  /** Takes another carrier for a session that is there. Never throws: the client is told why not. */
  async attach(carrier: Duplex, holder: SessionHolder): Promise<void> {
    const refuse = (text: string) => {
      carrier.write(encodeRefusal(text));
      endCarrier(carrier);
    };
    try {
      const hello = await readHello(carrier);
      const session = this.#sessions.get(hello.id.toString('hex'));
      // one answer for all, so that nobody learns which sessions there are
      if (!session || !timingSafeEqual(session.secret, hello.secret) || session.holder.user !== holder.user) {
        return refuse(
          'The session has ended: it was without a connection for too long, or the workspace was restarted.',
        );
      }
      clearTimeout(session.timer);
      session.timer = undefined;
      session.holder = holder;
      carrier.write(encodeWelcome(session.stream.received));
      session.stream.attach(carrier, hello.received);
    } catch (err) {
      if (carrier.destroyed) return;
      refuse(err instanceof ResumeError ? err.message : 'The session can not be resumed.');
    }
  }

  /** Ends the sessions of whoever may no longer hold one. */
  forget(gone: (holder: SessionHolder) => boolean): void {
    for (const { stream, holder } of [...this.#sessions.values()]) {
      if (gone(holder)) stream.destroy(new ResumeError('refused', 'the right to this session was taken back'));
    }
  }

  close(): void {
    for (const stream of this.#starting) stream.destroy();
    for (const { stream } of [...this.#sessions.values()]) stream.destroy();
  }

  #detached(session: Session): void {
    const end = () => session.stream.destroy(new ResumeError('lost', 'no connection came for the session in time'));
    session.timer = setTimeout(end, this.#options.graceMs).unref();
    const detached = [...this.#sessions.values()].filter(({ timer }) => timer !== undefined);
    // those are in the order of their beginning, not of their loss: good enough for a bound
    if (detached.length > this.#options.mostDetached) detached[0]!.stream.destroy(new ResumeError('lost', 'too many'));
  }
}
