import { networkInterfaces } from 'node:os';
import type { Services } from '../app/context/context.ts';
import { ClusterAgents } from '../cluster/agents.ts';
import { ReplicaKey } from '../cluster/handshake.ts';
import { Membership } from '../cluster/membership.ts';
import { Peers } from '../cluster/peers.ts';
import { type Address, hostText } from '../config/listen.ts';
import type { AgentConnections } from '../rpc/agents.ts';
import type { Starting } from './starting.ts';

/** This server among the servers that use its database. */
export interface Cluster {
  key: ReplicaKey;
  peers: Peers;
  /** The agents of all servers. */
  agents: ClusterAgents;
}

export function createCluster(services: Services, local: AgentConnections): Cluster {
  const key = new ReplicaKey();
  const { replicaId: id, log, clock } = services;
  const peers = new Peers({ id, key, log: log.child({ part: 'replicas' }), now: () => clock.now() });
  return { key, peers, agents: new ClusterAgents(services, local, peers) };
}

/** Makes this server known to the others, once it listens at this address. */
export async function joinCluster(
  { config, closer }: Starting,
  services: Services,
  { key, peers, agents }: Cluster,
  listening: Address,
): Promise<void> {
  const relayAddress = (config.derpServerRelayUrl || ownAddress(listening)).replace(/\/$/, '');
  const membership = new Membership(services, { peers, publicKey: key.publicKey, relayAddress });
  closer.add('sessions of other servers', () => agents.close());
  closer.add('membership', () => membership.leave());
  await membership.join();
}

/** The address of this machine that other machines most likely reach. */
function ownAddress({ host, port }: Address): string {
  if (host !== '0.0.0.0' && host !== '::') return `http://${hostText(host)}:${port}`;
  const addresses = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  const outside = addresses.filter(({ internal, scopeid }) => !internal && !scopeid);
  const best = outside.find(({ family }) => family === 'IPv4') ?? outside[0];
  return `http://${best ? hostText(best.address) : '127.0.0.1'}:${port}`;
}
