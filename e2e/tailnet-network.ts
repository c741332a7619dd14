// Two nodes behind two routers, each in its own network namespace, and a relay with a STUN server on the network between
// the routers. nftables makes each router one of the kinds that disco has to cope with.
//
//   left (10.1.0.2) - router 1 (203.0.113.11) - internet (203.0.113.1) - router 2 (203.0.113.12) - right (10.2.0.2)
//
// With IPv6, the addresses are fd01::2, 2001:db8::11 and so on, and routers translate them as well, so that a node learns its
// public address only from a STUN server.
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { eventually } from '@ropewalk/wire/testing/sockets';
import { obstacle, run } from './namespaces.ts';

const STUN_PORT = 3478;
const RELAY = '203.0.113.1';
const RELAY_IPV6 = '2001:db8::1';

/** The versions of IP that the network has. With both, nodes reach the relay over IPv4. */
export type Families = '4' | '6' | '4 and 6';

export type Router = 'full cone' | 'restricted' | 'symmetric' | 'blocks UDP';

export interface RouterOptions {
  /** Drops UDP over IPv4. */
  isWithoutIpv4Udp?: boolean;
  /** Drops UDP packets with more bytes than this, including the IP header, and sends no ICMP. */
  maxUdpBytes?: number;
}

interface Side {
  router: string;
  host: string;
  /** The network behind the router, without its last part. */
  lan: string;
  lanIpv6: string;
  /** The addresses of the router on the internet. */
  wan: string;
  wanIpv6: string;
  /** In the tailnet. */
  address: string;
}

/** The rules of a router whose outer interface is `wan`. */
function rulesOf(kind: Router, host: string, { isWithoutIpv4Udp, maxUdpBytes }: RouterOptions = {}): string {
  const masquerade = kind === 'symmetric' ? 'masquerade random,fully-random' : 'masquerade';
  return `flush ruleset
table ip nat {
  chain post {
    type nat hook postrouting priority 100
    oifname wan ${masquerade}
  }
  chain pre {
    type nat hook prerouting priority -100
    ${kind === 'full cone' ? `iifname wan udp dport 1024-65535 dnat to ${host}` : ''}
  }
}
table ip6 nat {
  chain post {
    type nat hook postrouting priority 100
    oifname wan ${masquerade}
  }
}
table inet filter {
  chain forward {
    type filter hook forward priority 0
    ${kind === 'blocks UDP' ? 'meta l4proto udp drop' : ''}
    ${isWithoutIpv4Udp ? 'meta nfproto ipv4 meta l4proto udp drop' : ''}
    ${maxUdpBytes === undefined ? '' : `meta l4proto udp meta length > ${maxUdpBytes} drop`}
    ${kind === 'full cone' ? '' : 'iifname wan ct state new drop'}
  }
  chain input {
    type filter hook input priority 0
    iifname wan meta l4proto udp ct state new drop
  }
}
`;
}

/** What a process of tailnet-process.ts writes, one value or more in each line. */
export interface Line {
  url?: string;
  /** The published node, and parts of it. */
  node?: string;
  endpoints?: string[];
  latencies?: string[];
  received?: string;
  path?: { kind: string; endpoint?: string };
  /** The longest packet of the transfer's sender. */
  packetBytes?: number;
  /** When the last handshake was, in ms. */
  handshakeAt?: number;
  /** The bytes of the transfer that the listener has received so far, and whether they are those that were sent. */
  bytes?: number;
  isEqual?: boolean;
  /** `yes`, or why another connection could not be opened. */
  connected?: string;
  /** Why the node's end of the transfer closed. Empty: it was complete. */
  ended?: string;
}

export type Process = ReturnType<RoutedNetwork['start']>;

let count = 0;

export class RoutedNetwork {
  readonly internet: string;
  readonly sides: readonly [Side, Side];
  /** Why this machine cannot have such a network. */
  readonly skip: string | false;
  readonly #families: Families;
  readonly #children = new Set<ChildProcess>();

  constructor(families: Families = '4') {
    this.#families = families;
    const prefix = `tn${process.pid}n${count++}`;
    this.internet = `${prefix}i`;
    const side = (number: number): Side => ({
      ...{ router: `${prefix}r${number}`, host: `${prefix}h${number}` },
      ...{
        lan: `10.${number}.0`,
        lanIpv6: `fd0${number}:`,
        wan: `203.0.113.1${number}`,
        wanIpv6: `2001:db8::1${number}`,
      },
      address: `fd7a:115c:a1e0::${number}`,
    });
    this.sides = [side(1), side(2)];
    this.skip = obstacle(`${prefix}x`, rulesOf('symmetric', '10.0.0.2'));
  }

  setUp(): void {
    if (this.skip) return;
    run(`ip netns add ${this.internet}`);
    inside(this.internet, 'ip link set lo up');
    inside(this.internet, 'ip link add br0 type bridge');
    inside(this.internet, 'ip link set br0 up');
    this.#addAddresses(this.internet, 'br0', `${RELAY}/24`, `${RELAY_IPV6}/64`);
    this.sides.forEach(({ router, host, lan, lanIpv6, wan, wanIpv6 }, i) => {
      for (const namespace of [router, host]) {
        run(`ip netns add ${namespace}`);
        inside(namespace, 'ip link set lo up');
      }
      run(`ip -n ${router} link add wan type veth peer name w${i} netns ${this.internet}`);
      inside(this.internet, `ip link set w${i} master br0 up`);
      run(`ip -n ${router} link add lan type veth peer name eth0 netns ${host}`);
      inside(router, 'ip link set wan up');
      inside(router, 'ip link set lan up');
      inside(router, 'sysctl -qw net.ipv4.ip_forward=1');
      inside(router, 'sysctl -qw net.ipv6.conf.all.forwarding=1');
      inside(host, 'ip link set eth0 up');
      this.#addAddresses(router, 'wan', `${wan}/24`, `${wanIpv6}/64`);
      this.#addAddresses(router, 'lan', `${lan}.1/24`, `${lanIpv6}:1/64`);
      this.#addAddresses(host, 'eth0', `${lan}.2/24`, `${lanIpv6}:2/64`);
      if (this.#has('4')) inside(host, `ip route add default via ${lan}.1`);
      if (this.#has('6')) inside(host, `ip -6 route add default via ${lanIpv6}:1`);
    });
  }

  #has(family: '4' | '6'): boolean {
    return this.#families.includes(family);
  }

  #addAddresses(namespace: string, device: string, ipv4: string, ipv6: string): void {
    if (this.#has('4')) inside(namespace, `ip addr add ${ipv4} dev ${device}`);
    // without waiting for others with the same address
    if (this.#has('6')) inside(namespace, `ip addr add ${ipv6} dev ${device} nodad`);
  }

  close(): void {
    for (const child of this.#children) child.kill('SIGKILL');
    if (this.skip) return;
    for (const namespace of [this.internet, ...this.sides.flatMap(({ router, host }) => [router, host])])
      run(`ip netns del ${namespace}`);
  }

  /** Sets the MTU of all links, or of those between the routers only. */
  setMtu(bytes: number, which: 'all' | 'between routers' = 'all'): void {
    for (const [i, { router, host }] of this.sides.entries()) {
      inside(this.internet, `ip link set w${i} mtu ${bytes}`);
      inside(router, `ip link set wan mtu ${bytes}`);
      if (which === 'between routers') continue;
      inside(router, `ip link set lan mtu ${bytes}`);
      inside(host, `ip link set eth0 mtu ${bytes}`);
    }
    inside(this.internet, `ip link set br0 mtu ${bytes}`);
  }

  /** Makes a router one of these kinds. Its connections stay. */
  setRouter(side: 0 | 1, kind: Router, options?: RouterOptions): void {
    const { router, lan } = this.sides[side];
    run(`ip netns exec ${router} nft -f -`, rulesOf(kind, `${lan}.2`, options));
  }

  /** A process in a namespace, and the newest value of each kind that it wrote. */
  start(namespace: string, ...args: string[]) {
    const script = join(import.meta.dirname, 'tailnet-process.ts');
    const child = spawn('ip', ['netns', 'exec', namespace, process.execPath, script, ...args], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    this.#children.add(child);
    const last: Line = {};
    const received: string[] = [];
    let onNode: (node: string) => void = () => {};
    createInterface({ input: child.stdout }).on('line', (text) => {
      const line = JSON.parse(text) as Line;
      Object.assign(last, line);
      if (line.received !== undefined) received.push(line.received);
      if (line.node !== undefined) onNode(line.node);
    });
    return {
      last,
      received,
      command: (line: object) => child.stdin.write(`${JSON.stringify(line)}\n`),
      onNode: (listener: typeof onNode) => {
        onNode = listener;
        if (last.node) listener(last.node);
      },
      /** `ip` runs the process in its place. */
      signal: (name: NodeJS.Signals) => child.kill(name),
      stop: () => {
        child.stdin.end();
        this.#children.delete(child);
      },
    };
  }

  /** A relay, and two nodes that know each other. `speed` is how fast their clocks run. */
  async startNodes(speed = 1): Promise<{ relay: Process; nodes: [Process, Process] }> {
    const addresses = [...(this.#has('4') ? [RELAY] : []), ...(this.#has('6') ? [RELAY_IPV6] : [])].join();
    const common = [`${STUN_PORT}`, `${speed}`, addresses];
    const relay = this.start(this.internet, 'relay', ...common);
    await eventually(() => relay.last.url !== undefined, 'the relay');
    const node = ({ host, address }: Side) => this.start(host, 'node', ...common, relay.last.url!, address);
    const [left, right] = [node(this.sides[0]), node(this.sides[1])];
    left.onNode((peer) => right.command({ peer }));
    right.onNode((peer) => left.command({ peer }));
    return { relay, nodes: [left, right] };
  }
}

export const inside = (namespace: string, command: string): string => run(`ip netns exec ${namespace} ${command}`);
