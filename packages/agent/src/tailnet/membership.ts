// The agent as a node of the tailnet, which reaches clients that speak upstream's protocol. The server asks the agent to
// join when a client wants to reach it. Only then does the agent load what it needs, and it leaves when no client has known
// it for a while: an idle agent needs no memory for the tailnet. Upstream's server does not ask: the agent joins and stays.
import type { Duplex } from 'node:stream';
import { errorText, type Logger } from '@ropewalk/kit';
import { abortable } from '@ropewalk/kit/abortable';
import type { ControlConnection } from '@ropewalk/tailnet/coordinator/client';
import type { YamuxSession } from '@ropewalk/wire/yamux';
import type { AgentOptions } from '../options.ts';
import type { Service } from '../services/service.ts';
import type { Workspace } from '../workspace.ts';
import type { TailnetServices } from './services.ts';

/** How long the agent remains in the tailnet without clients, in ms. */
const IDLE_MS = 10 * 60_000;

export interface MembershipOptions {
  options: AgentOptions;
  services: TailnetServices;
  log: Logger;
  idleMs?: number;
}

export class TailnetMembership {
  readonly #options: MembershipOptions;
  readonly #control = new ServerConnections();
  readonly #workspace = Promise.withResolvers<Workspace>();
  readonly #closed = new AbortController();
  #isAsked = false;
  #stays = false;
  #running: Promise<void> | undefined;

  constructor(options: MembershipOptions) {
    this.#options = options;
  }

  /** `{service: 'tailnet'}`: a client wants to reach this agent over the tailnet. */
  readonly serve: Service = ({ accept }) => {
    const stream = accept();
    stream.on('error', () => {});
    stream.resume();
    stream.end();
    this.#join();
  };

  /** Whether the agent is in the tailnet, or joins or leaves it. */
  get isActive(): boolean {
    return this.#running !== undefined;
  }

  setWorkspace(workspace: Workspace): void {
    this.#workspace.resolve(workspace);
  }

  /** The connection to use from now on. `isAsked`: whether this server asks the agent to join. */
  setConnection(session: Pick<YamuxSession, 'openStream'>, isAsked: boolean): void {
    this.#control.set(session);
    this.#stays = !isAsked;
    if (this.#stays) this.#join();
  }

  /** This connection is no longer to be used, even if it is still open. */
  unsetConnection(session: Pick<YamuxSession, 'openStream'>): void {
    this.#control.unset(session);
  }

  /** Leaves the tailnet. */
  async close(): Promise<void> {
    this.#closed.abort(new Error('the agent ends'));
    await this.#running;
  }

  #join(): void {
    this.#isAsked = true;
    this.#running ??= this.#run();
  }

  /** Whether the server asked since the last call, or never asks. */
  #takeAsked(): boolean {
    const isAsked = this.#isAsked || this.#stays;
    this.#isAsked = false;
    return isAsked;
  }

  async #run(): Promise<void> {
    const { options, services, log, idleMs = IDLE_MS } = this.#options;
    const { signal } = this.#closed;
    try {
      // a client may ask while the agent leaves
      while (this.#isAsked && !signal.aborted) {
        const [workspace, { joinTailnet }] = await Promise.all([
          abortable(this.#workspace.promise, signal),
          import('./member.ts'),
        ]);
        log.info('joining the tailnet');
        await joinTailnet({
          ...{ options, workspace, services, log, idleMs, signal },
          dial: (until) => this.#control.wait(until),
          wasAsked: () => this.#takeAsked(),
        });
        log.info('left the tailnet');
      }
    } catch (err) {
      if (!signal.aborted) log.warn('the agent is not in the tailnet', { err: errorText(err) });
    } finally {
      this.#running = undefined;
    }
  }
}

type Session = Pick<YamuxSession, 'openStream'>;

/** The connections to the server, one after the other. What uses one of them ends when another one replaces it. */
class ServerConnections {
  #session: Session | undefined;
  #next = Promise.withResolvers<Session>();
  readonly #streams = new Set<Duplex>();

  set(session: Session): void {
    if (this.#session) this.unset(this.#session);
    this.#session = session;
    this.#next.resolve(session);
  }

  unset(session: Session): void {
    if (this.#session !== session) return;
    this.#session = undefined;
    this.#next = Promise.withResolvers();
    for (const stream of this.#streams) stream.destroy();
  }

  /** Waits for a connection. Rejects with the signal's reason. */
  async wait(signal: AbortSignal): Promise<ControlConnection> {
    const session = await abortable(this.#next.promise, signal);
    return {
      openStream: () => {
        if (session !== this.#session) throw new Error('the connection was replaced');
        const stream = session.openStream();
        this.#streams.add(stream);
        stream.once('close', () => this.#streams.delete(stream));
        return stream;
      },
      // the connection itself belongs to the agent
      close: () => {},
    };
  }
}
