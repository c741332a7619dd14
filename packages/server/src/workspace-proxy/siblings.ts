// The other processes of this proxy. An agent is connected to one of them, because a load balancer chose it. The others reach the
// agent through that one: a WebSocket for each agent, on which they open streams as on the agent's own connection. The agent
// verifies every permit, so a process only has to prove that it has the token of the proxy.
import { createHmac } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Replica } from '@ropewalk/contract';
import { AppError, type Clock, errorText, type Logger } from '@ropewalk/kit';
import { linkSession } from '@ropewalk/wire/link-session';
import { splice } from '@ropewalk/wire/splice';
import { acceptWebSocket, dialWebSocket } from '@ropewalk/wire/websocket';
import type { YamuxSession } from '@ropewalk/wire/yamux';
import { sameBytes } from '../app/values/token.ts';

/** The route of a process where the others ask for an agent. */
export const SIBLING_PATH = '/api/v2/workspaceproxies/me/sibling';
const AGENT_HEADER = 'coder-sibling-agent';
const TIME_HEADER = 'coder-sibling-time';
const PROOF_HEADER = 'coder-sibling-proof';
/** How far apart the clocks of two processes may be, in ms. */
const MAX_CLOCK_DIFFERENCE = 60_000;
const DIAL_MS = 3_000;
/** As many as a server counts. */
const MAX_SIBLINGS = 64;

type Sibling = Pick<Replica, 'hostname' | 'relay_address'>;

export class Siblings {
  readonly #token: string;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #closed = new AbortController();
  #all: readonly Sibling[] = [];
  #problem = '';

  /** `token`: of the proxy, which all its processes have. */
  constructor({ token, clock, log }: { token: string; clock: Clock; log: Logger }) {
    this.#token = token;
    this.#clock = clock;
    this.#log = log;
  }

  /** Which of the others this process does not reach. Empty if it reaches all. */
  get problem(): string {
    return this.#problem;
  }

  /** Replaces what is known of the others, and asks each whether it is there. Never rejects. */
  async set(all: readonly Sibling[]): Promise<void> {
    this.#all = all.filter(({ relay_address: at }) => /^https?:/.test(at) && URL.canParse(at)).slice(0, MAX_SIBLINGS);
    const problems = await Promise.all(this.#all.map((sibling) => this.#problemOf(sibling)));
    this.#problem = problems.filter((text) => text !== undefined).join(' ');
  }

  async #problemOf({ hostname, relay_address: at }: Sibling): Promise<string | undefined> {
    try {
      const signal = AbortSignal.any([this.#closed.signal, AbortSignal.timeout(DIAL_MS)]);
      const answer = await fetch(new URL('/healthz', at), { signal, redirect: 'error' });
      await answer.body?.cancel();
      return answer.ok
        ? undefined
        : `It does not reach the process on "${hostname}" at ${at}: status ${answer.status}.`;
    } catch (err) {
      return `It does not reach the process on "${hostname}" at ${at}: ${errorText((err as Error).cause ?? err)}.`;
    }
  }

  /** A session whose streams reach the agent through the process to which it is connected. Undefined if none answers. */
  async find(agent: string): Promise<YamuxSession | undefined> {
    const found = new AbortController();
    const until = AbortSignal.any([this.#closed.signal, found.signal]);
    const dialed = this.#all.map((sibling) => this.#dial(sibling, agent, until));
    const session = await Promise.any(dialed).catch(() => undefined);
    found.abort();
    // two may have answered, if the agent has just moved
    for (const other of dialed) other.then((one) => one !== session && void one.close()).catch(() => {});
    return session;
  }

  async #dial({ hostname, relay_address: at }: Sibling, agent: string, signal: AbortSignal): Promise<YamuxSession> {
    try {
      const time = String(this.#clock.now().getTime());
      const { connection } = await dialWebSocket(new URL(SIBLING_PATH, at).href, {
        headers: { [AGENT_HEADER]: agent, [TIME_HEADER]: time, [PROOF_HEADER]: this.#proof(agent, time) },
        timeoutMs: DIAL_MS,
        signal,
      });
      return linkSession(connection, { role: 'client' });
    } catch (err) {
      this.#log.debug('another process has no connection to an agent', {
        hostname,
        agent_id: agent,
        err: errorText(err),
      });
      throw err;
    }
  }

  /**
   * Serves the streams that another process opens to an agent of this one.
   * @param own The agent's own connection to this process.
   * @throws AppError `unauthenticated` without proof, `not_found` if the agent is not connected here
   */
  accept(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    own: (agent: string) => YamuxSession | undefined,
  ): void {
    const [agent, time, proof] = [AGENT_HEADER, TIME_HEADER, PROOF_HEADER].map((name) => String(request.headers[name]));
    if (!this.#isProof(agent!, time!, proof!))
      throw new AppError('unauthenticated', 'Only another process of this workspace proxy may connect here.', {
        detail: 'It must have the same token, and the clocks may differ by a minute.',
      });
    const inside = own(agent!);
    if (!inside || inside.isClosed) throw new AppError('not_found', 'The agent is not connected to this process.');
    const outside = linkSession(acceptWebSocket(request, socket, head), {
      role: 'server',
      onStream: (stream) => this.#carry(stream, inside),
    });
    // without the agent, the other process has to look for it again
    void inside.closed.then(() => void outside.close());
    const onClosed = () => void outside.close();
    this.#closed.signal.addEventListener('abort', onClosed, { once: true });
    void outside.closed.then(() => this.#closed.signal.removeEventListener('abort', onClosed));
  }

  #carry(stream: Duplex, inside: YamuxSession): void {
    try {
      splice(stream, inside.openStream()).catch((err) =>
        this.#log.debug('a stream of another process ended', { err: errorText(err) }),
      );
    } catch (err) {
      stream.on('error', () => {}).destroy();
      this.#log.debug('could not open a stream for another process', { err: errorText(err) });
    }
  }

  #proof(agent: string, time: string): string {
    return createHmac('sha256', this.#token).update(`sibling ${agent} ${time}`).digest('hex');
  }

  #isProof(agent: string, time: string, proof: string): boolean {
    const isNow = Math.abs(this.#clock.now().getTime() - Number(time)) <= MAX_CLOCK_DIFFERENCE;
    return isNow && sameBytes(Buffer.from(proof), Buffer.from(this.#proof(agent, time)));
  }

  close(): void {
    this.#closed.abort(new AppError('canceled', 'The workspace proxy is shutting down.'));
  }
}
