import type { Duplex } from 'node:stream';
import type { AcceptedTunnel } from '@ropewalk/wire/tunnel';
import type { Services } from '../../app/context/context.ts';
import type { AgentConnections } from '../../rpc/agent/connections.ts';
import type { TailnetHub } from '../../rpc/tailnet/hub.ts';
import type { Peers } from '../peers.ts';
import { NOT_HERE } from '../place.ts';
import { ClusterMesh, MESH_SERVICE, PACKETS_SERVICE } from './mesh.ts';
import { AGENT_SERVICE, type AgentStream, ClientMirrors } from './mirrors.ts';
import { WantedAgents } from './wanted-agents.ts';

/** What servers ask each other for, so that the tailnet is one. */
export type TailnetRequest =
  /** Mirrors an agent at the server of its clients. */
  | { service: typeof AGENT_SERVICE; agent: string }
  /** Announces what the other server's relay must know. */
  | { service: typeof MESH_SERVICE }
  /** Forwards packets to the other server's relay. */
  | { service: typeof PACKETS_SERVICE };

/** The tailnet's parts on all servers, as one tailnet. */
export class ClusterTailnet {
  readonly #hub: TailnetHub;
  readonly #local: Pick<AgentConnections, 'connected'>;
  readonly #wanted: WantedAgents;
  readonly #mesh: ClusterMesh;
  #clients: ClientMirrors | undefined;

  constructor(
    services: Services,
    { hub, local, peers }: { hub: TailnetHub; local: Pick<AgentConnections, 'connected'>; peers: Peers },
  ) {
    this.#hub = hub;
    this.#local = local;
    this.#wanted = new WantedAgents(services, { hub, local, peers });
    this.#mesh = new ClusterMesh(services, peers);
    hub.join(this.#mesh);
  }

  /** Serves a stream of the server with the id `from`, until it ends. Rejects with the stream's error. */
  async serve(tunnel: AcceptedTunnel, stream: Duplex, wanted: TailnetRequest, from: string): Promise<void> {
    if (wanted.service === AGENT_SERVICE) await this.#serveAgent(tunnel, { stream, from, agentId: wanted.agent });
    else if (wanted.service === MESH_SERVICE) await this.#mesh.receive(tunnel.accept(), from);
    else if (wanted.service === PACKETS_SERVICE) (await this.#hub.load()).relay.acceptLink(tunnel.accept());
    else tunnel.refuse('This server does not have this service.');
  }

  async #serveAgent(tunnel: AcceptedTunnel, wanted: Omit<AgentStream, 'onWanted'>): Promise<void> {
    const { agentId } = wanted;
    if (!this.#local.connected(agentId)) return tunnel.refuse(NOT_HERE);
    const { coordinator } = await this.#hub.load();
    tunnel.accept();
    const onWanted = () => this.#hub.want(agentId);
    this.#clients ??= new ClientMirrors(coordinator);
    onWanted();
    await this.#clients.serve({ ...wanted, onWanted });
  }

  close(): void {
    this.#wanted.close();
    this.#mesh.close();
  }
}
