import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually } from '@ropewalk/wire/testing/sockets';
import { RoutedNetwork, type Router } from './tailnet-network.ts';

const network = new RoutedNetwork();
const { skip, sides } = network;
before(() => network.setUp());
after(() => network.close());

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
    network.setRouter(0, left);
    network.setRouter(1, right);
    const { relay, nodes } = await network.startNodes();
    const [a, b] = nodes;
    const isMapped = (i: 0 | 1) =>
      [left, right][i] === 'blocks UDP' ||
      (nodes[i].last.endpoints ?? []).some((text) => text.startsWith(`${sides[i].wan}:`));
    await eventually(() => isMapped(0) && isMapped(1), 'the public addresses');
    const exchange = () => {
      a.command({ send: 'from left', to: sides[1].address });
      b.command({ send: 'from right', to: sides[0].address });
    };
    await eventually(() => {
      exchange();
      return a.received.length > 0 && b.received.length > 0;
    }, 'packets in both directions');
    const since = performance.now();
    const paths = () => nodes.map(({ last }) => last.path?.kind);
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
      const count = b.received.length;
      await eventually(() => {
        exchange();
        return b.received.length > count;
      }, 'packets over the relay');
    }
    for (const one of [relay, a, b]) one.stop();
  });
