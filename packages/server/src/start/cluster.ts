import type { Server } from 'node:http';
import type { Services } from '../app/context/context.ts';
import { ClusterAgents } from '../cluster/agents.ts';
import { ReplicaKey } from '../cluster/handshake.ts';
import { Membership } from '../cluster/membership.ts';
import { Peers } from '../cluster/peers.ts';
import { ClusterTailnet } from '../cluster/tailnet/cluster-tailnet.ts';
import { type Address, listen, ownAddress, parseAddress } from '../config/listen.ts';
import type { Config } from '../config/options.ts';
import { liveReplicas } from '../db/queries/replicas.ts';
import type { AgentConnections } from '../rpc/agent/connections.ts';
import type { TailnetHub } from '../rpc/tailnet/hub.ts';
import type { Starting } from './starting.ts';

/** This server among the servers that use its database. */
export interface Cluster {
  key: ReplicaKey;
  peers: Peers;
  /** The agents of all servers. */
  agents: ClusterAgents;
  tailnet: ClusterTailnet;
}

export function createCluster(
  services: Services,
  { local, hub, isReady }: { local: AgentConnections; hub: TailnetHub; isReady: () => boolean },
): Cluster {
  const { replicaId: id, log, clock, sql } = services;
  const key = new ReplicaKey(id);
  const peers = new Peers({
    id,
    key,
    log: log.child({ part: 'replicas' }),
    now: () => clock.now(),
    readRows: () => liveReplicas(sql),
  });
  const tailnet = new ClusterTailnet(services, { local, hub, peers });
  return { key, peers, agents: new ClusterAgents(services, { local, peers, tailnet, isReady }), tailnet };
}

/** The server of the API, and the address on which it listens. */
interface Listening {
  server: Server;
  address: Address;
}

/** Makes this server known to the others, once it listens. */
export async function joinCluster(
  start: Starting,
  services: Services,
  { key, peers, agents, tailnet }: Cluster,
  http: Listening,
): Promise<void> {
  const { config, closer } = start;
  const relayAddress = (config.derpServerRelayUrl || ownAddress('http', http.address)).replace(/\/$/, '');
  const port = await listenForServers(start, services, key, http);
  const clusterAddress = port === undefined ? '' : clusterAddressOf(config, port);
  const membership = new Membership(services, { peers, key, relayAddress, clusterAddress });
  closer.add('sessions of other servers', () => agents.close());
  closer.add('membership', () => membership.leave());
  closer.add('tailnet of other servers', async () => tailnet.close());
  await membership.join();
}

/** Listens for the other servers, if they have their own listener, and returns its port. */
async function listenForServers(
  { config, closer, log }: Starting,
  { sql }: Services,
  key: ReplicaKey,
  { server }: Listening,
): Promise<number | undefined> {
  if (config.clusterAddress === '') return undefined;
  // loaded for those who configured it
  const { createReplicaListener } = await import('../http/replica-listener.ts');
  const secure = createReplicaListener(server, {
    key,
    log: log.child({ part: 'replicas' }),
    readCertificates: async () => (await liveReplicas(sql)).map(({ certificate }) => certificate),
  });
  closer.add('listener of other servers', async () => {
    const closed = new Promise<void>((resolve) => secure.close(() => resolve()));
    secure.closeAllConnections();
    await closed;
  });
  const address = parseAddress(config.clusterAddress);
  return (await listen(secure, address, '--cluster-address (CODER_CLUSTER_ADDRESS)')).port;
}

/** Where the other servers reach the listener of --cluster-address: on the host of the relay address, if there is one. */
function clusterAddressOf(
  { clusterAddress, derpServerRelayUrl }: Pick<Config, 'clusterAddress' | 'derpServerRelayUrl'>,
  port: number,
): string {
  if (derpServerRelayUrl !== '') return `https://${new URL(derpServerRelayUrl).hostname}:${port}`;
  return ownAddress('https', { host: parseAddress(clusterAddress).host, port });
}
