// What each kind of peer may ask of the coordinator. A rule checks one whole request before any part of it takes effect.
import { toBinary } from '@bufbuild/protobuf';
import { type CoordinateRequest, type Node, NodeSchema } from '@ropewalk/wire/proto/tailnet';
import { addressOf, LEGACY_AGENT_ADDRESS, parseHostPrefix, SERVICE_PREFIX, TAILNET_PREFIX } from '../address.ts';
import { decodeNodeKey, parseDiscoKey } from '../keys.ts';

/** Maximum length of an encoded node. Usual ones have less than 1 KiB. Many copies wait in the queues of other peers. */
export const MAX_NODE_BYTES: number = 16 * 1024;

/** Returns why the request is not allowed, or undefined if it is. */
export type CoordinateRule = (request: CoordinateRequest) => string | undefined | Promise<string | undefined>;

/** The rule of a client, which opens tunnels to agents. `mayReach` decides for an agent's id of 16 bytes. */
export function clientRule(mayReach: (id: Uint8Array) => boolean | Promise<boolean>): CoordinateRule {
  return async ({ updateSelf, addTunnel, readyForHandshake }) => {
    if (readyForHandshake.length > 0) return 'clients may not send ready_for_handshake';
    const invalid = invalidNode(updateSelf?.node, parseHostPrefix);
    if (invalid) return invalid;
    if (addTunnel && !(addTunnel.id.length === 16 && (await mayReach(addTunnel.id)))) return 'agent not accessible';
    return undefined;
  };
}

/** The rule of the agent with this id of 16 bytes, which publishes its own addresses and waits for clients. */
export function agentRule(id: Uint8Array): CoordinateRule {
  const own = [addressOf(TAILNET_PREFIX, id), addressOf(SERVICE_PREFIX, id), LEGACY_AGENT_ADDRESS];
  const ownAddress = (text: string) => {
    const address = parseHostPrefix(text);
    return address && own.some((allowed) => address.equals(allowed)) ? address : undefined;
  };
  return ({ updateSelf, addTunnel }) =>
    addTunnel ? 'agents cannot open tunnels' : invalidNode(updateSelf?.node, ownAddress);
}

function invalidNode(node: Node | undefined, parse: (text: string) => Uint8Array | undefined): string | undefined {
  if (!node) return undefined;
  if (toBinary(NodeSchema, node).length > MAX_NODE_BYTES) return `the node has more than ${MAX_NODE_BYTES} bytes`;
  if (!decodeNodeKey(node.key)) return 'invalid node key';
  if (!parseDiscoKey(node.disco)) return 'invalid disco key';
  const wrong = [...node.addresses, ...node.allowedIps].find((text) => !parse(text));
  return wrong === undefined ? undefined : `invalid node address ${JSON.stringify(wrong)}`;
}
