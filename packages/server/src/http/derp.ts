// The relay of the tailnet. It asks for no credential: a client proves only that it has the key that it names, and the
// relay forwards between keys that the coordinator introduced to each other.
import { AppError } from '@ropewalk/kit';
import type { FastifyInstance } from 'fastify';
import { networkOf } from '../app/values/network.ts';
import type { TailnetHub } from '../rpc/tailnet/hub.ts';
import type { ClientAddress } from './client-address.ts';
import { takeUpgrade } from './exchange.ts';
import { RelayStrangers, relayStream, relayUpgradeOf } from './relay-streams.ts';
import { UPGRADE_REQUIRED } from './relay-upgrade.ts';

/** Serves the relay, and the route with which clients measure the way to it. */
export function relayRoutes(
  app: FastifyInstance,
  { hub, clientAddress }: { hub: TailnetHub; clientAddress: ClientAddress },
): void {
  const strangers = new RelayStrangers();
  app.get('/derp/latency-check', async (_request, reply) => reply.code(200).send());
  app.get('/derp', async (request, reply) => {
    if (!hub.services.config.derpServerEnable)
      throw new AppError('not_found', 'This server runs no relay. Its DERP map lists the ones to use.');
    const upgrade = relayUpgradeOf(request.raw);
    if (!upgrade) return reply.code(426).header('upgrade', 'DERP').type('text/plain').send(UPGRADE_REQUIRED);
    const network = networkOf(clientAddress(request.raw));
    strangers.check(network);
    const { relay } = await hub.load();
    const stream = relayStream(upgrade, { request: request.raw, ...takeUpgrade(request, reply)! }, relay);
    if (stream) await relay.accept(stream, strangers.count(network, stream));
    return reply;
  });
}
