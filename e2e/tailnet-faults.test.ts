// Faults of the network and of a machine during a transfer between two nodes.
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '@ropewalk/wire/testing/sockets';
import { type Families, inside, type Process, RoutedNetwork, type RouterOptions } from './tailnet-network.ts';

const { skip } = new RoutedNetwork();

/** A node notices the end of its direct path after a heartbeat of 3 s and 1 s more. A busy machine needs some time. */
const MAX_PAUSE_MS = 12_000;
/** Then it asks for its public address again. Nodes try all addresses each 5 s. */
const MAX_DIRECT_MS = 15_000;
/** More than could be on its way when a fault begins. */
const MUCH_BYTES = 500_000;
const SIDES = [0, 1] as const;

interface TransferOptions extends RouterOptions {
  families?: Families;
  speed?: number;
  /** Changes the network before the nodes start. */
  links?: (network: RoutedNetwork) => void;
}

/** A transfer from the left node to the right one, in its own network. */
class Transfer {
  readonly network: RoutedNetwork;
  readonly #t: TestContext;
  #nodes: readonly [Process, Process] | undefined;

  private constructor(t: TestContext, network: RoutedNetwork) {
    this.#t = t;
    this.network = network;
  }

  static async begin(
    t: TestContext,
    { families = '4', speed = 1, links = () => {}, ...options }: TransferOptions = {},
  ): Promise<Transfer> {
    const network = new RoutedNetwork(families);
    const transfer = new Transfer(t, network);
    t.after(() => network.close());
    network.setUp();
    links(network);
    for (const side of SIDES) network.setRouter(side, 'restricted', options);
    const { nodes } = await network.startNodes(speed);
    transfer.#nodes = nodes;
    nodes[0].command({ transfer: network.sides[1].address });
    await transfer.goesOn('at first');
    return transfer;
  }

  get nodes(): readonly [Process, Process] {
    return this.#nodes!;
  }

  get bytes(): number {
    return this.nodes[1].last.bytes ?? 0;
  }

  /** The paths that both nodes use. */
  get paths(): (string | undefined)[] {
    return this.nodes.map(({ last: { path } }) => path?.endpoint ?? path?.kind);
  }

  get kinds(): (string | undefined)[] {
    return this.nodes.map(({ last: { path } }) => path?.kind);
  }

  async goesOn(when: string, ms = MAX_PAUSE_MS): Promise<void> {
    const before = this.bytes;
    await this.#took(`goes on ${when}`, ms, () => this.bytes > before + MUCH_BYTES);
  }

  async goesDirect(when: string): Promise<void> {
    await this.#took(`is direct ${when}`, MAX_DIRECT_MS, () => this.kinds.join() === 'direct,direct');
  }

  /** The sender's packets have this length. */
  async hasPackets(bytes: number, when: string): Promise<void> {
    await this.#took(
      `has packets of ${bytes} bytes ${when}`,
      MAX_PAUSE_MS,
      () => this.nodes[0].last.packetBytes === bytes,
    );
  }

  /** Neither node uses the path that it used before. */
  async leaves([left, right]: (string | undefined)[]): Promise<void> {
    await this.#took('leaves its path', MAX_PAUSE_MS, () => this.paths[0] !== left && this.paths[1] !== right);
  }

  /** Ends the transfer. All bytes must have arrived. */
  async ends(): Promise<void> {
    const [from, to] = this.nodes;
    from.command({ finish: true });
    await eventually(() => to.last.ended !== undefined && from.last.ended !== undefined, 'the end', 10_000);
    assert.deepEqual([from.last.ended, to.last.ended, to.last.isEqual], ['', '', true]);
  }

  async #took(what: string, ms: number, holds: () => boolean): Promise<void> {
    const since = performance.now();
    await eventually(holds, `the transfer ${what}, ${this.bytes} bytes, ${this.paths}`, ms);
    this.#t.diagnostic(`${what} after ${Math.round(performance.now() - since)} ms`);
  }
}

async function losesFullPackets(t: TestContext): Promise<void> {
  const maxUdpBytes = 1_280;
  const transfer = await Transfer.begin(t, { maxUdpBytes });
  // the nodes try all addresses several times
  const since = performance.now();
  while (performance.now() - since < 6_000) {
    await transfer.goesOn('over the relay');
    assert.deepEqual(transfer.paths, ['relay', 'relay']);
  }
  for (const side of SIDES) transfer.network.setRouter(side, 'restricted');
  await transfer.goesDirect('when full packets pass');
  const { paths } = transfer;
  transfer.network.setRouter(1, 'restricted', { maxUdpBytes });
  await transfer.goesOn('when full packets are lost again');
  await transfer.leaves(paths);
  await transfer.ends();
}

const SHORT_BYTES = 1_280;

async function losesLongPackets(t: TestContext): Promise<void> {
  const transfer = await Transfer.begin(t, { links: (network) => network.setMtu(9_000) });
  await transfer.goesDirect('at first');
  await transfer.hasPackets(8_928, 'on links of 9,000');
  await transfer.goesOn('in long packets');
  const { paths } = transfer;
  transfer.network.setRouter(1, 'restricted', { maxUdpBytes: 1_400 });
  await transfer.goesOn('when long packets are lost');
  await transfer.hasPackets(SHORT_BYTES, 'afterwards');
  assert.deepEqual(transfer.paths, paths, 'usual packets pass, so the path stays');
  await transfer.ends();
}

async function fillsUsualLinks(t: TestContext): Promise<void> {
  const transfer = await Transfer.begin(t);
  await transfer.goesDirect('at first');
  await transfer.hasPackets(1_440, 'on links of 1,500');
  await transfer.goesOn('in them');
  await transfer.ends();
}

async function passesNarrowLink(t: TestContext): Promise<void> {
  const links = (network: RoutedNetwork) => network.setMtu(1_400, 'between routers');
  const transfer = await Transfer.begin(t, { links });
  await transfer.goesDirect('at first');
  await transfer.goesOn('directly');
  // the router has answered the long ping with its MTU
  await transfer.goesOn('after the long ping');
  assert.equal(transfer.nodes[0].last.packetBytes, SHORT_BYTES);
  assert.deepEqual(transfer.kinds, ['direct', 'direct']);
  await transfer.ends();
}

function replaceHostAddress({ host, lan }: RoutedNetwork['sides'][0]): void {
  inside(host, `ip addr del ${lan}.2/24 dev eth0`);
  inside(host, `ip addr add ${lan}.3/24 dev eth0`);
  inside(host, `ip route add default via ${lan}.1`);
}

/** Replaces an address of the left side while a transfer takes the direct path. */
async function changesAddress(t: TestContext, change: (side: RoutedNetwork['sides'][0]) => void): Promise<void> {
  const transfer = await Transfer.begin(t);
  await transfer.goesDirect('at first');
  const right = transfer.paths[1];
  change(transfer.network.sides[0]);
  await transfer.goesOn('with the new address');
  await eventually(() => transfer.paths[1] !== right, 'another path', MAX_PAUSE_MS);
  await transfer.goesDirect('with the new address');
  await transfer.goesOn('directly');
  await transfer.ends();
}

/** Without a direct path, nodes compare their addresses each 10 s. The relay then has 3 s to answer. */
const MAX_RELAYED_PAUSE_MS = 20_000;

async function changesAddressWithoutUdp(t: TestContext): Promise<void> {
  const transfer = await Transfer.begin(t, { isWithoutIpv4Udp: true });
  replaceHostAddress(transfer.network.sides[0]);
  await transfer.goesOn('with the new address', MAX_RELAYED_PAUSE_MS);
  assert.deepEqual(transfer.paths, ['relay', 'relay']);
  await transfer.ends();
}

// The clocks of all programs run 12 times as fast, because sessions of WireGuard last 180 s, which are 15 s here.
const SPEED = 12;
const STOPPED_MS = 190_000 / SPEED;
const MAX_WAKE_MS = 3_000;

async function isStopped(t: TestContext, side: 0 | 1): Promise<void> {
  const transfer = await Transfer.begin(t, { speed: SPEED });
  await transfer.goesDirect('at first');
  const { handshakeAt } = transfer.nodes[1].last;
  transfer.nodes[side].signal('SIGSTOP');
  await delay(STOPPED_MS);
  const before = transfer.bytes;
  await delay(500);
  assert.equal(transfer.bytes, before, 'nothing arrives meanwhile');
  transfer.nodes[side].signal('SIGCONT');
  transfer.nodes[side].command({ connect: transfer.network.sides[1 - side]!.address });
  await eventually(() => transfer.nodes[side].last.connected === 'yes', 'another connection', MAX_WAKE_MS);
  await transfer.goesOn('afterwards', MAX_WAKE_MS);
  assert.notEqual(transfer.nodes[1].last.handshakeAt, handshakeAt);
  await transfer.goesDirect('afterwards');
  await transfer.ends();
}

async function finds6(t: TestContext, options: Parameters<typeof Transfer.begin>[1]): Promise<void> {
  const transfer = await Transfer.begin(t, options);
  await transfer.goesDirect('over IPv6');
  transfer.network.sides.forEach(({ wanIpv6 }, side) => {
    const { endpoints, latencies } = transfer.nodes[side as 0 | 1].last;
    const other = transfer.paths[1 - side]!;
    assert.ok(other.startsWith(`[${wanIpv6}]:`), other);
    assert.ok(endpoints!.includes(other), endpoints!.join());
    assert.ok(latencies!.includes('1-v6'), latencies!.join());
  });
  await transfer.goesOn('directly');
  await transfer.ends();
}

describe('a transfer', { skip, concurrency: 3, timeout: 120_000 }, () => {
  test('stays with the relay while a path loses full packets, and goes back to it', losesFullPackets);

  test('has long packets on links that carry them, until one loses them silently', losesLongPackets);

  test('fills the packets of usual links', fillsUsualLinks);

  test('has usual packets where a link on the way is narrower', passesNarrowLink);

  test('goes on with another address of its host', (t) => changesAddress(t, replaceHostAddress));

  test('goes on with another address of its host, over the relay alone', changesAddressWithoutUdp);

  test('goes on with another address of the router', (t) =>
    changesAddress(t, ({ router, wan }) => {
      inside(router, `ip addr del ${wan}/24 dev wan`);
      inside(router, `ip addr add ${wan}7/24 dev wan`);
    }));

  test('goes on after its sender was stopped until sessions expired', (t) => isStopped(t, 0));

  test('goes on after its receiver was stopped until sessions expired', (t) => isStopped(t, 1));

  test('finds a direct path without UDP over IPv4', (t) => finds6(t, { families: '4 and 6', isWithoutIpv4Udp: true }));

  test('finds a direct path without IPv4', (t) => finds6(t, { families: '6' }));
});
