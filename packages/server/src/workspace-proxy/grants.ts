import type { Duplex } from 'node:stream';
import { type Clock, isAppError } from '@ropewalk/kit';
import { permitIn, readLines } from '@ropewalk/wire/proxy-link';
import type { AppGrant } from '../app/context/sealed-tokens.ts';
import type { AppAddress } from '../app/values/app-address.ts';
import type { AgentPaths } from './agent-paths.ts';
import type { ServerLink } from './link.ts';
import type { VerificationKeys } from './verification-keys.ts';

const MAX_HELD = 8_000;
const SWEEP_MS = 15_000;

/** A grant that the proxy uses. The server reports what changes about it. */
interface Held {
  grant: AppGrant;
  token: string;
  /** Rights behind it have changed: what begins from now on needs another grant. */
  isStale: boolean;
  /** What is open under it. */
  readonly ends: Set<() => void>;
  /** The stream of the server's news. */
  news: Duplex | undefined;
  /** The newest permit for the agent's own connection, if the agent has one. */
  permit: string | undefined;
}

/** The grants of visitors, verified by the server's keys, and what is open under them. */
export class ProxyGrants {
  readonly #parts: { keys: VerificationKeys; link: ServerLink; paths: AgentPaths; clock: Clock };
  readonly #held = new Map<string, Held>();
  readonly #tokens = new WeakMap<AppGrant, string>();
  readonly #closed = new AbortController();
  readonly #timer: NodeJS.Timeout;

  constructor(parts: { keys: VerificationKeys; link: ServerLink; paths: AgentPaths; clock: Clock }) {
    this.#parts = parts;
    this.#timer = setInterval(() => this.#sweep(), SWEEP_MS);
    this.#timer.unref();
    // a new connection, perhaps to another server
    parts.link.onUp(() => {
      for (const held of this.#held.values()) if (!held.news) void this.#listen(held);
    });
  }

  /** The grant in a token for this app, if it is valid now. */
  of(token: string, { kind, base }: Pick<AppAddress, 'kind' | 'base'>): AppGrant | undefined {
    let held = this.#held.get(token);
    if (!held) {
      const grant = this.#parts.keys.read(token);
      if (!grant || grant.kind === 'terminal' || grant.kind === 'tunnel') return undefined;
      held = this.#hold(token, grant as AppGrant);
    }
    const { grant, isStale } = held;
    const isFor = grant.kind === kind && grant.base === base;
    return isFor && !isStale && grant.expires > this.#parts.clock.now().getTime() ? grant : undefined;
  }

  /** The token of a grant from `of`. */
  tokenOf(grant: AppGrant): string {
    return this.#tokens.get(grant)!;
  }

  /** The newest permit for the bytes of this grant's app. Undefined if only the link carries them. */
  permitOf(grant: AppGrant): string | undefined {
    return this.#held.get(this.tokenOf(grant))?.permit;
  }

  /** Calls `end` once the visitor may no longer use the app. Returns a function that stops watching. */
  watch(grant: AppGrant, end: () => void): () => void {
    const held = this.#held.get(this.tokenOf(grant)) ?? this.#hold(this.tokenOf(grant), grant);
    held.ends.add(end);
    return () => held.ends.delete(end);
  }

  close(): void {
    clearInterval(this.#timer);
    this.#closed.abort();
    for (const { news } of this.#held.values()) news?.destroy();
    this.#held.clear();
  }

  #hold(token: string, grant: AppGrant): Held {
    if (this.#held.size >= MAX_HELD) this.#makeRoom();
    const held: Held = { grant, token, isStale: false, ends: new Set(), news: undefined, permit: undefined };
    this.#held.set(token, held);
    this.#tokens.set(grant, token);
    void this.#listen(held);
    return held;
  }

  /** Asks the server to report changes. Never rejects. Without a connection, the next one asks again. */
  async #listen(held: Held): Promise<void> {
    try {
      const news = await this.#parts.link.open(
        { service: 'watch', grant: held.permit ?? held.token },
        this.#closed.signal,
      );
      if (this.#held.get(held.token) !== held) {
        news.destroy();
        return;
      }
      held.news = news;
      news.on('error', () => {});
      readLines(news, (line) => this.#take(held, line));
      news.once('close', () => {
        held.news = undefined;
      });
    } catch (err) {
      if (isAppError(err, 'unavailable') || this.#closed.signal.aborted) return;
      this.#end(held);
    }
  }

  #take(held: Held, line: string): void {
    const permit = permitIn(line);
    if (permit !== undefined) {
      held.permit = permit;
      if (held.ends.size > 0) this.#parts.paths.renew(held.grant.agent, permit);
      return;
    }
    held.isStale = true;
    if (line === 'ended') this.#end(held);
  }

  #end(held: Held): void {
    held.isStale = true;
    for (const end of [...held.ends]) end();
  }

  #sweep(): void {
    const now = this.#parts.clock.now().getTime();
    for (const held of this.#held.values())
      if (held.ends.size === 0 && (held.isStale || held.grant.expires <= now)) this.#forget(held);
  }

  /** Forgets the oldest grant under which nothing is open. Its visitor asks again. */
  #makeRoom(): void {
    const oldest = this.#held.values().find(({ ends }) => ends.size === 0);
    if (oldest) this.#forget(oldest);
  }

  #forget(held: Held): void {
    this.#held.delete(held.token);
    held.news?.destroy();
  }
}
