// The services of agents that have no tunnels of this server, such as upstream's. What they need is loaded when somebody
// asks for one of them.
import type { Duplex } from 'node:stream';
import { AppError } from '@ropewalk/kit';
import type { TunnelRequest } from '@ropewalk/wire/tunnel';
import { CLIENT_JOINS } from '../../app/agent/tunnel.ts';
import type { TailnetHub } from './hub.ts';
import type { ServerMembership } from './membership.ts';

export class TailnetServices {
  readonly #hub: TailnetHub;
  #membership: Promise<ServerMembership> | undefined;
  #isClosed = false;

  constructor(hub: TailnetHub) {
    this.#hub = hub;
  }

  /**
   * Opens a service of an agent that is connected to this server, with the bytes that a tunnel would have.
   * @throws AppError `unsupported` if the client can join the tailnet or the agent does not have the service, `unavailable`
   * if the agent does not answer
   */
  async open(agentId: string, request: TunnelRequest, signal?: AbortSignal): Promise<Duplex> {
    if (request[CLIENT_JOINS]) {
      throw new AppError('unsupported', 'The agent of this workspace has no tunnels of this server.', {
        detail:
          "It is upstream's agent, which the coder command reaches directly or through a relay. Update the command if it does not.",
      });
    }
    const [membership, { openService }] = await Promise.all([this.#load(), import('./agent-ports.ts')]);
    return openService((port, until) => membership.connect(agentId, port, until), request, signal);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await (await this.#membership)?.close();
  }

  #load(): Promise<ServerMembership> {
    if (this.#isClosed) throw new AppError('unavailable', 'The server is shutting down.');
    this.#membership ??= import('./membership.ts').then(({ ServerMembership }) => new ServerMembership(this.#hub));
    return this.#membership;
  }
}
