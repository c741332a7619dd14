import type { TestContext } from 'node:test';
import { type Clock, systemClock } from '@ropewalk/kit';
import { randomAddress, TAILNET_PREFIX } from '../address.ts';
import type { RelayMap } from '../derp/map.ts';
import { KeyPair } from '../keys.ts';
import { TailnetNode, type TailnetNodeOptions } from '../node/tailnet-node.ts';
import { type OpenUdp, openUdp } from '../node/udp.ts';
import { hex } from './vectors.ts';

/** A node of a test, and the packets that it received. */
export interface TestNode {
  node: TailnetNode;
  id: Buffer;
  keys: KeyPair;
  discoKeys: KeyPair;
  address: Buffer;
  /** The texts of received packets, each with the sender's key. */
  received: { text: string; peer: string }[];
}

/** A node with a random address that uses this map. It ends with the test. */
export function testNode(t: TestContext, map: RelayMap, options: Partial<TailnetNodeOptions> = {}): TestNode {
  const keys = options.keys ?? KeyPair.generate();
  const discoKeys = options.discoKeys ?? KeyPair.generate();
  const address = randomAddress(TAILNET_PREFIX);
  const received: TestNode['received'] = [];
  const node = new TailnetNode({
    id: 1n,
    addresses: [address],
    onPacket: (packet, peer) => received.push({ text: packet.subarray(40).toString(), peer: hex(peer)! }),
    ...options,
    ...{ keys, discoKeys },
  });
  t.after(() => node.close());
  node.setRelayMap(map);
  return { node, id: Buffer.from(address), keys, discoKeys, address, received };
}

/** Introduces two nodes to each other, now and after each change, as a coordinator does. */
export function introduce(a: TestNode, b: TestNode): void {
  a.node.onChange((node) => b.node.setPeer(a.id, node));
  b.node.onChange((node) => a.node.setPeer(b.id, node));
}

/** An IPv6 packet that carries a text. */
export function packetOf(from: Buffer, to: Buffer, text: string): Buffer {
  const header = Buffer.alloc(8);
  header[0] = 0x60;
  header.writeUInt16BE(Buffer.byteLength(text), 4);
  header[6] = 59;
  return Buffer.concat([header, from, to, Buffer.from(text)]);
}

export function send(from: TestNode, to: TestNode, text: string): boolean {
  return from.node.send(packetOf(from.address, to.address, text));
}

const FAST_FACTOR = 8;

/** A clock that runs 8 times as fast, for nodes whose waits a test should not wait for. Use `hurry` with it. */
export const fastClock: Clock = {
  now: () => new Date(1_700_000_000_000 + fastClock.monotonic()),
  monotonic: () => FAST_FACTOR * performance.now(),
  sleep: (ms, signal) => systemClock.sleep(ms / FAST_FACTOR, signal),
};

/** A clock whose two times a test moves. While a machine sleeps, its wall clock goes on and the monotonic one stands still. */
export class MovableClock implements Clock {
  wallAheadMs = 0;
  monotonicAheadMs = 0;

  now(): Date {
    return new Date(1_700_000_000_000 + performance.now() + this.wallAheadMs);
  }

  monotonic(): number {
    return performance.now() + this.monotonicAheadMs;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return systemClock.sleep(ms, signal);
  }

  /** Lets time pass for a node, which does everything that is due each second. */
  pass(node: TailnetNode, ms: number): void {
    for (let i = 0; i < ms; i += 1_000) {
      this.wallAheadMs += 1_000;
      this.monotonicAheadMs += 1_000;
      node.tick();
    }
  }
}

/** Lets nodes with the fast clock do what is due in time: their own timers are slower. */
export function hurry(t: TestContext, ...nodes: TestNode[]): void {
  const timer = setInterval(() => {
    for (const { node } of nodes) node.tick();
  }, 10);
  t.after(() => clearInterval(timer));
}

/** UDP on the loopback interface, with a filter that can drop datagrams. */
export class FilteredUdp {
  /** Drops all datagrams in both directions. */
  isCut = false;
  /** Datagrams that passed in either direction. */
  passed = 0;
  readonly open: OpenUdp = async (family, { onPacket, onError }) => {
    const socket = await openUdp(family, {
      onError,
      onPacket: (packet, host, port) => {
        if (this.isCut) return;
        this.passed++;
        onPacket(packet, host, port);
      },
    });
    return {
      port: socket.port,
      close: () => socket.close(),
      send: (packet, port, host) => {
        if (this.isCut) return;
        this.passed++;
        socket.send(packet, port, host);
      },
    };
  };
}
