import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { AppError, type Clock, errorText, type Logger } from '@ropewalk/kit';
import { abortable } from '@ropewalk/kit/abortable';
import { linkSession } from '@ropewalk/wire/link-session';
import { type PermittedRequest, TICKET_HEADER } from '@ropewalk/wire/proxy-link';
import { requestTunnel } from '@ropewalk/wire/tunnel';
import { acceptWebSocket } from '@ropewalk/wire/websocket';
import type { YamuxSession } from '@ropewalk/wire/yamux';
import type { ServerLink } from './link.ts';
import type { Siblings } from './siblings.ts';
import type { VerificationKeys } from './verification-keys.ts';

const REQUEST_MS = 10_000;
/** So long after a failure an agent is not invited again: it does not reach this proxy, or is an older one. */
const AGAIN_MS = 60_000;

interface Parts {
  keys: VerificationKeys;
  link: ServerLink;
  siblings: Siblings;
  clock: Clock;
  log: Logger;
}

/** The agents' own connections to this proxy, over which bytes don't cross the server. */
export class AgentPaths {
  readonly #parts: Parts;
  readonly #sessions = new Map<string, YamuxSession>();
  /** Through another process of this proxy. */
  readonly #elsewhere = new Map<string, YamuxSession>();
  /** The agents that are looked for now. */
  readonly #sought = new Map<string, Promise<void>>();
  /** The agents that are invited now. */
  readonly #invited = new Map<string, Promise<void>>();
  /** When an invitation failed, by the monotonic clock. */
  readonly #failed = new Map<string, number>();
  readonly #closed = new AbortController();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Accepts the connection of an agent. @throws AppError `unauthenticated` without the ticket of an invitation */
  accept(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const ticket = request.headers[TICKET_HEADER];
    const agent = typeof ticket === 'string' ? this.#parts.keys.agentOf(ticket) : undefined;
    if (agent === undefined) throw new AppError('unauthenticated', 'The ticket of the agent is not valid.');
    const session = linkSession(acceptWebSocket(request, socket, head), { role: 'server' });
    void this.#sessions.get(agent)?.close();
    this.#sessions.set(agent, session);
    this.#parts.log.info('an agent connected', { agent_id: agent });
    void session.closed.then(({ reason }) => {
      if (this.#sessions.get(agent) === session) this.#sessions.delete(agent);
      this.#parts.log.info('an agent disconnected', { agent_id: agent, reason });
    });
  }

  /** Serves another process of this proxy. @throws AppError as Siblings.accept does */
  acceptSibling(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    this.#parts.siblings.accept(request, socket, head, (agent) => this.#sessions.get(agent));
  }

  /**
   * Opens what a permit names. Undefined if the agent has no connection here, or rejects the permit: the link of the server
   * then carries the bytes, or has the reason.
   */
  async open(agent: string, permit: string, signal?: AbortSignal): Promise<Duplex | undefined> {
    return this.#ask(agent, { service: 'permitted', permit }, signal);
  }

  /** Sends a newer permit for open streams. */
  renew(agent: string, permit: string): void {
    void this.#ask(agent, { service: 'renewed', permit }).then((stream) => stream?.on('error', () => {}).destroy());
  }

  async #ask(agent: string, request: PermittedRequest, signal?: AbortSignal): Promise<Duplex | undefined> {
    const session = this.#session(agent);
    if (!session) return undefined;
    try {
      return await requestTunnel(session, { ...request }, { timeoutMs: REQUEST_MS, ...(signal ? { signal } : {}) });
    } catch (err) {
      signal?.throwIfAborted();
      this.#parts.log.debug('an agent opened no stream', { agent_id: agent, err: errorText(err) });
      return undefined;
    }
  }

  has(agent: string): boolean {
    return this.#session(agent) !== undefined;
  }

  #session(agent: string): YamuxSession | undefined {
    return [this.#sessions, this.#elsewhere]
      .map((all) => all.get(agent))
      .find((session) => session && !session.isClosed);
  }

  /** Looks for an agent that is connected to another process of this proxy. Rejects only with the reason of the signal. */
  async find(agent: string, signal?: AbortSignal): Promise<void> {
    if (this.has(agent)) return;
    let sought = this.#sought.get(agent);
    if (!sought) {
      sought = this.#find(agent).finally(() => this.#sought.delete(agent));
      this.#sought.set(agent, sought);
    }
    await (signal ? abortable(sought, signal) : sought);
  }

  async #find(agent: string): Promise<void> {
    const session = await this.#parts.siblings.find(agent);
    if (!session) return;
    this.#elsewhere.set(agent, session);
    this.#parts.log.info('another process reaches an agent', { agent_id: agent });
    void session.closed.then(() => {
      if (this.#elsewhere.get(agent) === session) this.#elsewhere.delete(agent);
    });
  }

  /** Makes the agent connect, unless it is connected or failed to do so lately. Resolves then, too. Never rejects. */
  async invite(agent: string, grant: string): Promise<void> {
    if (this.has(agent)) return;
    const failed = this.#failed.get(agent);
    if (failed !== undefined && this.#parts.clock.monotonic() - failed < AGAIN_MS) return;
    let invited = this.#invited.get(agent);
    if (!invited) {
      invited = this.#invite(agent, grant).finally(() => this.#invited.delete(agent));
      this.#invited.set(agent, invited);
    }
    await invited;
  }

  async #invite(agent: string, grant: string): Promise<void> {
    const { link, clock, log } = this.#parts;
    try {
      const stream = await link.open({ service: 'invite', grant }, this.#closed.signal);
      stream.on('error', () => {}).destroy();
      await this.find(agent);
      if (!this.has(agent))
        throw new Error('it is connected to another process of this proxy, which cannot be reached');
      this.#failed.delete(agent);
    } catch (err) {
      if (this.#failed.size > 10_000) this.#failed.clear();
      this.#failed.set(agent, clock.monotonic());
      log.info('an agent does not connect, so its bytes cross the server', { agent_id: agent, err: errorText(err) });
    }
  }

  close(): void {
    this.#closed.abort(new AppError('canceled', 'The workspace proxy is shutting down.'));
    for (const session of [...this.#sessions.values(), ...this.#elsewhere.values()]) void session.close();
  }
}
