// Our agents join the tailnet only when a client wants to reach them, so that idle ones need no memory for it. This server
// asks them.
import { errorText } from '@ropewalk/kit';
import { uuidBytes } from '@ropewalk/wire/uuid';
import type { TailnetHub } from './hub.ts';

export interface InvitationsOptions {
  /** Whether the agent is connected to this server and joins when it is asked. */
  accepts(agentId: string): boolean;
  /** Asks the agent. Resolves when it has the request. */
  invite(agentId: string): Promise<void>;
}

/**
 * Asks agents to join. An agent that has joined is asked too: it may be about to leave. One agent is asked once at a time,
 * however many clients want it.
 */
export class TailnetInvitations {
  readonly #hub: TailnetHub;
  readonly #options: InvitationsOptions;
  /** The agents that are being asked, and whether a client wanted them since then. */
  readonly #pending = new Map<string, boolean>();
  readonly #off: () => void;

  constructor(hub: TailnetHub, options: InvitationsOptions) {
    this.#hub = hub;
    this.#options = options;
    this.#off = hub.onWanted((agentId) => this.#ask(agentId));
  }

  /** An agent has connected. Clients may have wanted it before. */
  connected(agentId: string): void {
    if (this.#hub.parts?.coordinator.isWanted(uuidBytes(agentId))) this.#ask(agentId);
  }

  close(): void {
    this.#off();
  }

  #ask(agentId: string): void {
    if (!this.#options.accepts(agentId)) return;
    if (this.#pending.has(agentId)) {
      this.#pending.set(agentId, true);
      return;
    }
    this.#pending.set(agentId, false);
    const { log } = this.#hub.services;
    this.#options
      .invite(agentId)
      .catch((err) => log.debug('could not ask an agent to join', { agent_id: agentId, err: errorText(err) }))
      .finally(() => {
        const isWantedAgain = this.#pending.get(agentId);
        this.#pending.delete(agentId);
        if (isWantedAgain) this.#ask(agentId);
      });
  }
}
