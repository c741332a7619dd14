import type { Duplex } from 'node:stream';
import { AppError, backoff, errorText } from '@ropewalk/kit';
import type { Coordinator } from '@ropewalk/tailnet/coordinator/coordinator';
import { uuidBytes, uuidText } from '@ropewalk/wire/uuid';
import type { Services } from '../../app/context/context.ts';
import { createWakeUp, type WakeUp } from '../../app/follow/wake-up.ts';
import type { AgentConnections } from '../../rpc/agent/connections.ts';
import type { TailnetHub } from '../../rpc/tailnet/hub.ts';
import type { Peers } from '../peers.ts';
import { otherPlace } from '../place.ts';
import { AGENT_SERVICE, mirrorAgent, wantAgain } from './mirrors.ts';

/** Maximum time without a look at where an agent is and whether a client wants it, in ms: an event can be lost. */
const LOOK_AGAIN_MS = 30_000;
/** The waits between attempts to reach the agent's server. */
const RETRY = { baseMs: 100, capMs: 5_000 };

export interface WantedAgentsOptions {
  hub: TailnetHub;
  local: Pick<AgentConnections, 'connected'>;
  peers: Peers;
}

/** An agent that a client of this server wants. */
interface Follower extends WakeUp {
  /** The open stream to its server. */
  stream: Duplex | undefined;
  /** When a client wanted it last, in the clock's ms. */
  wantedAt: number;
}

/** The agents of other servers that clients of this one want. Each is mirrored here for as long as one does. */
export class WantedAgents {
  readonly #services: Services;
  readonly #options: WantedAgentsOptions;
  /** By the agent's id. */
  readonly #followers = new Map<string, Follower>();
  readonly #closed = new AbortController();
  readonly #off: (() => void)[];

  constructor(services: Services, options: WantedAgentsOptions) {
    this.#services = services;
    this.#options = options;
    const { hub } = options;
    this.#off = [
      hub.onWanted((agentId) => {
        if (!options.local.connected(agentId)) this.#want(agentId);
      }),
      services.events.on('agent_connected', ({ agent_id: id }) => this.#look(id)),
      services.events.onResync(() => {
        for (const id of hub.parts?.coordinator.wantedHere() ?? []) this.#look(uuidText(id));
      }),
    ];
  }

  close(): void {
    for (const stop of this.#off) stop();
    this.#closed.abort(new AppError('canceled', 'The server is shutting down.'));
    for (const follower of this.#followers.values()) {
      follower.stream?.destroy();
      follower.wake();
    }
  }

  #want(agentId: string): void {
    if (this.#closed.signal.aborted) return;
    const follower = this.#followers.get(agentId);
    if (!follower) this.#follow(agentId);
    else {
      follower.wantedAt = this.#services.clock.monotonic();
      if (follower.stream) wantAgain(follower.stream);
      else follower.wake();
    }
  }

  /** The agent may have moved. Its old connection to this server may still be open. */
  #look(agentId: string): void {
    const follower = this.#followers.get(agentId);
    if (follower) follower.wake();
    else if (this.#options.hub.parts?.coordinator.isWantedHere(uuidBytes(agentId))) this.#want(agentId);
  }

  #follow(agentId: string): void {
    const follower = { ...createWakeUp(), stream: undefined, wantedAt: this.#services.clock.monotonic() };
    this.#followers.set(agentId, follower);
    this.#mirror(agentId, follower).catch((err) => {
      this.#followers.delete(agentId);
      this.#services.log.debug('could not follow an agent of another server', {
        agent_id: agentId,
        err: errorText(err),
      });
    });
  }

  /** Mirrors the agent, on whichever server it is, until nobody wants it or it connects to this server. */
  async #mirror(agentId: string, follower: Follower): Promise<void> {
    const { coordinator } = await this.#options.hub.load();
    const waits = backoff(RETRY);
    while (this.#isWanted(coordinator, agentId, follower)) {
      let wait = LOOK_AGAIN_MS;
      try {
        const place = await this.#place(agentId);
        if (place === undefined && this.#options.local.connected(agentId)) {
          this.#followers.delete(agentId);
          return;
        }
        if (place !== undefined) {
          wait = waits.next();
          const request = { service: AGENT_SERVICE, agent: agentId };
          follower.stream = await this.#options.peers.request(place, request, this.#closed.signal);
          waits.reset();
          await this.#mirrorAt(coordinator, agentId, place, follower);
        }
      } catch (err) {
        this.#services.log.debug('no stream to the server of an agent', { agent_id: agentId, err: errorText(err) });
      }
      await follower.wait(wait);
    }
  }

  /** Mirrors the agent until the stream ends. */
  async #mirrorAt(coordinator: Coordinator, agentId: string, place: string, follower: Follower): Promise<void> {
    const stream = follower.stream!;
    const watch = async () => {
      while (!stream.destroyed) {
        await follower.wait(LOOK_AGAIN_MS);
        if (stream.destroyed) return;
        // while the database is away, the agent stays where it was
        const now = await this.#place(agentId).catch(() => place);
        if (now !== place || !this.#isWanted(coordinator, agentId, follower)) stream.destroy();
      }
    };
    const watching = watch();
    try {
      await mirrorAgent(coordinator, agentId, stream);
    } finally {
      follower.stream = undefined;
      follower.wake();
      await watching;
    }
  }

  /** Forgets a follower that is not needed any more. A client that just got the permission adds its tunnel a moment later. */
  #isWanted(coordinator: Coordinator, agentId: string, { wantedAt }: Follower): boolean {
    const isRecent = this.#services.clock.monotonic() - wantedAt < LOOK_AGAIN_MS;
    const isWanted = !this.#closed.signal.aborted && (isRecent || coordinator.isWantedHere(uuidBytes(agentId)));
    if (!isWanted) this.#followers.delete(agentId);
    return isWanted;
  }

  async #place(agentId: string): Promise<string | undefined> {
    return (await otherPlace(this.#services, this.#options.peers, agentId)).place;
  }
}
