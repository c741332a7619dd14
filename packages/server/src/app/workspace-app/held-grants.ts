import { errorText, type Logger } from '@ropewalk/kit';
import type { AppGrant } from '../context/sealed-tokens.ts';
import { type Kept, ShortLived } from '../values/short-lived.ts';

/** How long a grant is valid, in ms. */
export const GRANT_MS = 60_000;
/** The largest allowed difference between the clocks of two processes that issue and accept grants, in ms. */
export const CLOCK_SLACK_MS = 2_000;
const MAX_REMEMBERED = 10_000;
const SWEEP_MS = 30_000;

/** What a decision about a grant needs. */
export type Grant = Pick<AppGrant, 'base' | 'user' | 'key' | 'workspace' | 'template' | 'issued' | 'expires'> & {
  kind: string;
};

/** An open stream, and the grant and address that it was opened with. */
export interface OpenStream<G extends Grant, A> {
  readonly grant: G;
  readonly address: A;
}

/** A grant, and the token that proves it. */
export interface Given<G extends Grant> {
  grant: G;
  token: string;
}

/** What the owner of an open stream wants to know of its grant. */
export interface StreamWatcher {
  /** The grant's user may no longer use the app. */
  end(): void;
  /** Rights behind the grant have changed, so it is no longer valid for further requests. */
  changed?(): void;
}

interface Live<G extends Grant, A> extends Kept, OpenStream<G, A>, StreamWatcher {}

export interface HeldGrantsParts<G extends Grant, A> {
  /** Verifies a token and returns its grant, whatever its age. Undefined for any other text. */
  read(token: string): G | undefined;
  /** In ms since 1970. */
  now(): number;
  /** Whether the stream's user may still use the app. Rejects if that cannot be found out: the stream stays open then. */
  mayStill(stream: OpenStream<G, A>): Promise<boolean>;
  /** Those of these streams whose sessions have expired. All of them have grants that have expired. */
  withExpiredSession(streams: readonly OpenStream<G, A>[]): Promise<readonly OpenStream<G, A>[]>;
  log: Pick<Logger, 'debug' | 'warn'>;
}

/**
 * The grants that a process accepts, and the open streams that depend on them. Changes of rights make grants invalid before
 * they expire. It reads no database, so a process without one can have it.
 */
export class HeldGrants<G extends Grant, A> {
  readonly #parts: HeldGrantsParts<G, A>;
  readonly #timer: NodeJS.Timeout;
  /** Verified grants by their token: each signature is checked once. */
  readonly #read = new Map<string, G>();
  /** The newest grants, by the id of their question: the session and the app. */
  readonly #given = new Map<string, Given<G>>();
  readonly #live = new ShortLived<Live<G, A>>();
  /** The ids that grants depend on, each with a time in ms since 1970. Grants issued up to that time are invalid. */
  readonly #distrusted = new Map<string, number>();
  #distrustedAll = 0;

  constructor(parts: HeldGrantsParts<G, A>) {
    this.#parts = parts;
    this.#timer = setInterval(
      () => void this.#sweep().catch((err) => parts.log.debug('could not check open apps', { err: errorText(err) })),
      SWEEP_MS,
    );
    this.#timer.unref();
  }

  /** The grant in a token for this app, if it is still valid. */
  of(token: string, { base, kind }: Pick<Grant, 'base' | 'kind'>): G | undefined {
    let grant = this.#read.get(token);
    if (!grant) {
      grant = this.#parts.read(token);
      if (!grant) return undefined;
      if (this.#read.size >= MAX_REMEMBERED) this.#read.clear();
      this.#read.set(token, grant);
    }
    if (grant.base !== base || grant.kind !== kind) return undefined;
    return this.isValid(grant) ? grant : undefined;
  }

  /** The grant that was remembered under this id, if it is still valid. */
  given(id: string): Given<G> | undefined {
    const known = this.#given.get(id);
    return known && this.isValid(known.grant) ? known : undefined;
  }

  remember(id: string, given: Given<G>): void {
    if (this.#given.size >= MAX_REMEMBERED) this.#given.clear();
    this.#given.set(id, given);
  }

  /** Whether a grant is still valid, as far as this process knows. */
  isValid(grant: G): boolean {
    const now = this.#parts.now();
    if (grant.expires <= now || grant.issued > now + GRANT_MS || grant.issued <= this.#distrustedAll) return false;
    if (this.#distrusted.size === 0) return true;
    return dependsOn(grant).every((id) => grant.issued > (this.#distrusted.get(id) ?? 0));
  }

  /** Calls the watcher's `end` once. Returns a function that stops watching. */
  watch(grant: G, address: A, watcher: StreamWatcher): () => void {
    const one = { grant, address, ...watcher, at: -1 };
    this.#live.add(one);
    // a change that was announced between the query and this moment did not reach this stream's watcher
    if (!this.isValid(grant)) this.#lookAgain((other) => other === grant);
    return () => this.#live.delete(one);
  }

  /**
   * The rights to or of these users, sessions, workspaces or templates have changed.
   * @param slackMs how far ahead the clock of the process that issues grants may be
   */
  distrust(ids: readonly string[], slackMs = 0): void {
    const now = this.#parts.now();
    for (const id of ids) this.#distrusted.set(id, now + slackMs);
    const of = new Set(ids);
    this.#lookAgain((grant) => dependsOn(grant).some((id) => of.has(id)));
  }

  /** Changes may have been missed. */
  distrustAll(): void {
    this.#distrustedAll = this.#parts.now() + CLOCK_SLACK_MS;
    this.#lookAgain(() => true);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Asks again for these grants of open streams, and ends the streams that are no longer permitted. */
  #lookAgain(which: (grant: G) => boolean): void {
    const asked = new Map<string, Promise<boolean>>();
    for (const one of this.#live.all()) {
      if (!which(one.grant)) continue;
      one.changed?.();
      const id = `${one.grant.key} ${one.grant.base}`;
      const answer = asked.get(id) ?? this.#parts.mayStill(one);
      asked.set(id, answer);
      answer.then(
        (may) => {
          if (!may) one.end();
        },
        (err) => this.#parts.log.warn('could not check an open app', { err: errorText(err) }),
      );
    }
  }

  /** Forgets expired grants, and ends streams whose sessions have expired. */
  async #sweep(): Promise<void> {
    const now = this.#parts.now();
    for (const [text, grant] of this.#read) if (grant.expires <= now) this.#read.delete(text);
    for (const [id, { grant }] of this.#given) if (grant.expires <= now) this.#given.delete(id);
    for (const [id, at] of this.#distrusted) if (at + GRANT_MS < now) this.#distrusted.delete(id);
    const long = this.#live.all().filter(({ grant }) => grant.key !== '' && grant.expires <= now);
    if (long.length === 0) return;
    const over = new Set(await this.#parts.withExpiredSession(long));
    for (const one of long) if (over.has(one)) one.end();
  }
}

const dependsOn = ({ user, key, workspace, template }: Grant) => [user, key, workspace, template];
