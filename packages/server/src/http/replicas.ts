import type { FastifyInstance } from 'fastify';
import type { Services } from '../app/context/context.ts';
import type { ClusterAgents } from '../cluster/agents.ts';
import { Greetings, type ReplicaKey } from '../cluster/handshake.ts';
import { PEER_PATH } from '../cluster/peers.ts';
import { liveReplicas } from '../db/queries/replicas.ts';
import { exchange, requireUpgrade } from './exchange.ts';

/** The longest message of another server: a frame of its session. */
const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;

/** The route where other servers of this deployment connect, to reach the agents of this one. */
export function replicaRoutes(
  app: FastifyInstance,
  services: Services,
  { key, agents }: { key: ReplicaKey; agents: ClusterAgents },
): void {
  const greetings = new Greetings(services.replicaId, key);
  app.get(PEER_PATH, async (request, reply) => {
    const http = exchange(request, reply, { headers: {}, maxMessageBytes: MAX_MESSAGE_BYTES });
    requireUpgrade(http);
    const { from, headers } = await greetings.check(
      request.headers,
      services.clock.now(),
      async (id) => (await liveReplicas(services.sql)).find((replica) => replica.id === id)?.public_key,
    );
    void agents.serve(http.upgrade(headers), from);
    return reply;
  });
}
