import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { eventually } from '@ropewalk/wire/testing/sockets';
import { obstacle, run } from './namespaces.ts';

// Two nodes behind two routers, each in its own network namespace, and a relay with a STUN server on the network between
// the routers. nftables makes each router one of the kinds that disco has to cope with.
//
//   left (10.1.0.2) - router 1 (203.0.113.11) - internet (203.0.113.1) - router 2 (203.0.113.12) - right (10.2.0.2)

const PREFIX = `tn${process.pid}`;
const INTERNET = `${PREFIX}i`;
const STUN_PORT = 3478;
const RELAY = '203.0.113.1';
const sides = [1, 2].map((number) => ({
  number,
  router: `${PREFIX}r${number}`,
  host: `${PREFIX}h${number}`,
  lan: `10.${number}.0`,
  wan: `203.0.113.1${number}`,
  address: `fd7a:115c:a1e0::${number}`,
}));

type Router = 'full cone' | 'restricted' | 'symmetric' | 'blocks UDP';

/** The rules of a router whose outer interface is `wan`. */
function rulesOf(kind: Router, host: string): string {
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
table ip filter {
  chain forward {
    type filter hook forward priority 0
    ${kind === 'blocks UDP' ? 'meta l4proto udp drop' : ''}
    ${kind === 'full cone' ? '' : 'iifname wan ct state new drop'}
  }
  chain input {
    type filter hook input priority 0
    iifname wan meta l4proto udp ct state new drop
  }
}
`;
}

const skip = obstacle(`${PREFIX}x`, rulesOf('symmetric', '10.0.0.2'));
const children = new Set<ChildProcess>();

before(() => {
  if (skip) return;
  run(`ip netns add ${INTERNET}`);
  const inside = (namespace: string, command: string) => run(`ip netns exec ${namespace} ${command}`);
  inside(INTERNET, 'ip link set lo up');
  inside(INTERNET, 'ip link add br0 type bridge');
  inside(INTERNET, `ip addr add ${RELAY}/24 dev br0`);
  inside(INTERNET, 'ip link set br0 up');
  for (const { number, router, host, lan, wan } of sides) {
    for (const namespace of [router, host]) {
      run(`ip netns add ${namespace}`);
      inside(namespace, 'ip link set lo up');
    }
    run(`ip -n ${router} link add wan type veth peer name w${number} netns ${INTERNET}`);
    inside(INTERNET, `ip link set w${number} master br0 up`);
    run(`ip -n ${router} link add lan type veth peer name eth0 netns ${host}`);
    inside(router, `ip addr add ${wan}/24 dev wan`);
    inside(router, `ip addr add ${lan}.1/24 dev lan`);
    inside(router, 'ip link set wan up');
    inside(router, 'ip link set lan up');
    inside(router, 'sysctl -qw net.ipv4.ip_forward=1');
    inside(host, `ip addr add ${lan}.2/24 dev eth0`);
    inside(host, 'ip link set eth0 up');
    inside(host, `ip route add default via ${lan}.1`);
  }
});

after(() => {
  for (const child of children) child.kill('SIGKILL');
  if (skip) return;
  for (const namespace of [INTERNET, ...sides.flatMap(({ router, host }) => [router, host])])
    run(`ip netns del ${namespace}`);
});

interface Line {
  url?: string;
  node?: string;
  received?: string;
  path?: { kind: string };
  endpoints?: string[];
}

/** A process in a namespace, and the newest value of each kind that it said. */
function start(namespace: string, ...args: string[]) {
  const script = join(import.meta.dirname, 'tailnet-process.ts');
  const child = spawn('ip', ['netns', 'exec', namespace, process.execPath, script, ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  children.add(child);
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
    stop: () => {
      child.stdin.end();
      children.delete(child);
    },
  };
}

const cases: [Router, Router, 'direct' | 'relay'][] = [
  ['full cone', 'full cone', 'direct'],
  ['restricted', 'restricted', 'direct'],
  ['full cone', 'symmetric', 'direct'],
  ['restricted', 'symmetric', 'relay'],
  ['symmetric', 'symmetric', 'relay'],
  ['restricted', 'blocks UDP', 'relay'],
];

for (const [left, right, expected] of cases)
  test(`${left} to ${right}: ${expected}`, { skip, timeout: 60_000 }, async (t) => {
    [left, right].forEach((kind, i) => {
      const { router, lan } = sides[i]!;
      run(`ip netns exec ${router} nft -f -`, rulesOf(kind, `${lan}.2`));
    });
    const relay = start(INTERNET, 'relay', RELAY, `${STUN_PORT}`);
    await eventually(() => relay.last.url !== undefined, 'the relay');
    const [a, b] = sides.map(({ host, address }) => start(host, 'node', relay.last.url!, `${STUN_PORT}`, address));
    a!.onNode((peer) => b!.command({ peer }));
    b!.onNode((peer) => a!.command({ peer }));
    const isMapped = (i: number) =>
      [left, right][i] === 'blocks UDP' ||
      ([a, b][i]!.last.endpoints ?? []).some((text) => text.startsWith(`${sides[i]!.wan}:`));
    await eventually(() => [0, 1].every(isMapped), 'the public addresses');
    const exchange = () => {
      a!.command({ send: 'from left', to: sides[1]!.address });
      b!.command({ send: 'from right', to: sides[0]!.address });
    };
    await eventually(() => {
      exchange();
      return a!.received.length > 0 && b!.received.length > 0;
    }, 'packets in both directions');
    const since = performance.now();
    const paths = () => [a!.last.path?.kind, b!.last.path?.kind];
    const reached = eventually(
      () => {
        exchange();
        return paths().every((kind) => kind === 'direct');
      },
      'the direct path',
      expected === 'direct' ? 30_000 : 12_000,
    );
    if (expected === 'direct') {
      await reached;
      t.diagnostic(`direct after ${Math.round(performance.now() - since)} ms`);
    } else {
      await assert.rejects(reached);
      const count = b!.received.length;
      await eventually(() => {
        exchange();
        return b!.received.length > count;
      }, 'packets over the relay');
    }
    for (const one of [relay, a!, b!]) one.stop();
  });
