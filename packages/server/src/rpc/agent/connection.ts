import type { Capability } from '@ropewalk/wire/capabilities';
import { byteStream, type WebSocketConnection } from '@ropewalk/wire/websocket';
import { YamuxSession } from '@ropewalk/wire/yamux';
import type { ConnectedAgent } from '../../authz/proofs.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import type { LiveAgent } from './liveness.ts';

/** The window of our own agents' streams. Upstream's agents keep the protocol's 256 KiB. */
const OUR_WINDOW = 1024 * 1024;
/** How much all windows of one agent's connection may grow together if the round trip is long. */
const WINDOW_GROWTH = 64 * 1024 * 1024;
/** Concurrent calls of one agent. */
const MAX_CALLS = 64;
/** Close code of a connection that a newer one of the same agent replaces. Our agents then wait longer before they dial. */
const SUPERSEDED = 4409;

export interface AgentConnectionOptions {
  agent: ConnectedAgent<AgentIdentity>;
  /** What the other end can do. */
  offers: Set<Capability>;
  /** Whether the session itself finds out that the other end is gone. The liveness pings agents. */
  keepAlive: boolean;
}

/** One connection with an agent's token. It is the agent's connection once it has a number. */
export class AgentConnection implements LiveAgent {
  readonly agent: ConnectedAgent<AgentIdentity>;
  readonly offers: Set<Capability>;
  readonly session: YamuxSession;
  /** A later connection of the same agent has a higher number. 0: not the agent's connection. */
  number = 0;
  /** Whether the agent was asked to connect to another server. */
  isMoving = false;
  #superseded = false;

  constructor(connection: WebSocketConnection, { agent, offers, keepAlive }: AgentConnectionOptions) {
    this.agent = agent;
    this.offers = offers;
    this.session = new YamuxSession(byteStream(connection, { closeCode: () => this.#closeCode() }), {
      role: 'server',
      ...(keepAlive ? {} : { keepAlive }),
      maxIncomingStreams: MAX_CALLS,
      ...(offers.has('tunnel/1') ? { maxWindow: OUR_WINDOW, growth: WINDOW_GROWTH } : {}),
    });
  }

  get workspaceId(): string {
    return this.agent.workspace_id;
  }

  get ownerId(): string {
    return this.agent.owner_id;
  }

  ping(): Promise<number> {
    return this.session.ping();
  }

  /** Ends the connection because the agent has a newer one. If the agent has moved, open tunnels end first. */
  supersede(): void {
    if (this.isMoving && this.session.streamCount > 0) {
      this.session.once('idle', () => this.supersede());
      return;
    }
    this.#superseded = true;
    this.close();
  }

  close(): void {
    void this.session.close();
  }

  #closeCode(): number {
    if (this.#superseded) return SUPERSEDED;
    return this.session.failed ? 1011 : 1000;
  }
}
