import { randomAddress, TAILNET_PREFIX } from '../address.ts';
import { KeyPair } from '../keys.ts';
import { Stack, type StackOptions } from '../stack/stack.ts';
import { TailnetNode, type TailnetNodeOptions } from './tailnet-node.ts';

export interface NodeWithStackOptions
  extends Omit<TailnetNodeOptions, 'keys' | 'id' | 'addresses' | 'onPacket' | 'onAddressReleased' | 'onPathChange'>,
    Pick<StackOptions, 'schedule'> {
  /** The number in the published node. Default: a random one. */
  id?: bigint;
  /** 16 bytes each. Default: a random one. */
  addresses?: readonly Buffer[];
  /** Takes the packets of peers instead of the stack. */
  onPacket?: TailnetNodeOptions['onPacket'];
}

/** Creates a node with fresh keys, and the network stack whose packets it carries. The caller closes both. */
export function nodeWithStack({
  addresses = [randomAddress(TAILNET_PREFIX)],
  schedule,
  ...options
}: NodeWithStackOptions): { node: TailnetNode; stack: Stack } {
  const stack: Stack = new Stack({
    ...{ addresses, schedule, clock: options.clock },
    onPacket: (packet) => void node.send(packet),
    packetBytes: (peer) => node.packetBytes(peer),
    onLongPacketsLost: (peer) => node.longPacketsLost(peer),
  });
  const node = new TailnetNode({
    ...{ addresses, keys: KeyPair.generate(), id: BigInt(Math.floor(Math.random() * 2 ** 48)) },
    onPacket: (packet) => stack.receive(packet),
    onAddressReleased: (address) => stack.forget(address),
    onPathChange: (address) => stack.retry(address),
    ...options,
  });
  return { node, stack };
}
