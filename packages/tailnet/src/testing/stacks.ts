import { randomAddress, TAILNET_PREFIX } from '../address.ts';
import { Stack } from '../stack/stack.ts';

/** Two stacks that are connected without a network. `addresses` has the client's, then that of the other one. */
export function connectedStacks(): { addresses: readonly [Buffer, Buffer]; client: Stack; stack: Stack } {
  const addresses = [randomAddress(TAILNET_PREFIX), randomAddress(TAILNET_PREFIX)] as const;
  const client: Stack = new Stack({
    addresses: [addresses[0]],
    onPacket: (packet) => setImmediate(() => stack.receive(packet)),
  });
  const stack: Stack = new Stack({
    addresses: [addresses[1]],
    onPacket: (packet) => setImmediate(() => client.receive(packet)),
  });
  return { addresses, client, stack };
}
