import { errorText } from '@ropewalk/kit';
import type { CoordinatedPeer } from '@ropewalk/tailnet/coordinator/coordinator';
import type { CoordinateRequest } from '@ropewalk/wire/proto/tailnet';
import { uuidBytes } from '@ropewalk/wire/uuid';
import type { ConnectedAgent } from '../../authz/proofs.ts';
import { mayReport } from '../../db/queries/agents.ts';
import type { AgentIdentity } from '../../db/rows.ts';
import type { TailnetHub } from './hub.ts';

const LOOK_AGAIN_MS = 2_000;

interface AgentPeer {
  agent: ConnectedAgent<AgentIdentity>;
  peer: CoordinatedPeer;
}

export const agentOwner = ({ id }: { id: string }): string => `agent ${id}`;

/** The agents whose nodes this server coordinates, from their first call until the coordinator has forgotten them. */
export class TailnetAgents {
  readonly #hub: TailnetHub;
  /** By the id of the workspace. */
  readonly #peers = new Map<string, Set<AgentPeer>>();
  readonly #off: (() => void)[];

  constructor(hub: TailnetHub) {
    this.#hub = hub;
    const { events } = hub.services;
    this.#off = [
      events.on('workspace_changed', ({ workspace_id: id }) => {
        for (const entry of this.#peers.get(id) ?? []) this.#check(entry);
      }),
      events.onResync(() => {
        for (const entries of this.#peers.values()) for (const entry of entries) this.#check(entry);
      }),
    ];
  }

  async *coordinate(
    agent: ConnectedAgent<AgentIdentity>,
    requests: AsyncIterable<CoordinateRequest>,
    signal: AbortSignal,
  ) {
    const { coordinator, rules } = await this.#hub.load();
    const id = uuidBytes(agent.id);
    const peer = coordinator.connect({ id, owner: agentOwner(agent), rule: rules.agentRule(id) });
    this.#add({ agent, peer });
    yield* this.#hub.coordinate(peer, agentOwner(agent), requests, signal);
  }

  resumeToken(agent: AgentIdentity) {
    return this.#hub.resumeToken({ id: agent.id, owner: agentOwner(agent) });
  }

  close(): void {
    for (const stop of this.#off) stop();
  }

  #add(entry: AgentPeer): void {
    const { workspace_id: workspace } = entry.agent;
    const entries = this.#peers.get(workspace) ?? new Set();
    this.#peers.set(workspace, entries.add(entry));
    void entry.peer.forgotten.then(() => {
      entries.delete(entry);
      if (entries.size === 0 && this.#peers.get(workspace) === entries) this.#peers.delete(workspace);
    });
    // the workspace may have changed since the agent's token was verified
    this.#check(entry);
  }

  /** Ends the node of an agent whose workspace was stopped, deleted or built again. */
  #check({ agent, peer }: AgentPeer): void {
    const { sql, log } = this.#hub.services;
    mayReport(sql, agent).then(
      (may) => {
        if (!may) peer.close('disconnected');
      },
      (err) => {
        log.warn('could not check the node of an agent', { agent_id: agent.id, err: errorText(err) });
        setTimeout(() => {
          if (!this.#hub.closed.aborted) this.#check({ agent, peer });
        }, LOOK_AGAIN_MS).unref();
      },
    );
  }
}
