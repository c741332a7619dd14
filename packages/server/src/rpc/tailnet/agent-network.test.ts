import assert from 'node:assert/strict';
import { test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { TailnetDERPRegion } from '@ropewalk/contract';
import { NodeSchema } from '@ropewalk/wire/proto/tailnet';
import { relayLatencies } from '../../app/tailnet/relay-latencies.ts';
import { agentNetwork } from './agent-network.ts';

const node = (derpLatency: Record<string, number>) =>
  create(NodeSchema, { id: 2n ** 62n + 1n, preferredDerp: 2, derpLatency });

test("keeps the lower latency of each region of an agent's node", () => {
  const network = agentNetwork(node({ '1-v4': 0.02, '1-v6': 0.01, '2-v4': 0.1234567, '2': 0.5 }), undefined);
  assert.deepEqual(network, { node: '4611686018427387905', home: 2, latencies: { 1: 0.01, 2: 0.12346 } });
});

test('counts the round trip of an agent without a node as the latency of the relay of this server', () => {
  assert.deepEqual(agentNetwork(undefined, { region: 999, ms: 12.5 }), {
    node: null,
    home: 999,
    latencies: { 999: 0.0125 },
  });
  assert.equal(agentNetwork(undefined, undefined), undefined);
});

test('ignores latencies that no node of upstream sends, and keeps those of 64 regions and the preferred one', () => {
  const wrong = { x: 1, '': 1, '-1': 1, '1e3': 1, '3-v5': 1, '0': 1, '4': -1, '5': Number.NaN, '6': 61 };
  assert.deepEqual(agentNetwork(node(wrong), undefined)?.latencies, {});
  const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [`${n + 3}-v4`, 0.001]));
  const kept = Object.keys(agentNetwork(node({ ...many, '2-v4': 0.001 }), undefined)!.latencies);
  assert.ok(kept.length <= 65 && kept.includes('2'), String(kept.length));
});

test('names regions as the map does, and others by their number', () => {
  const Regions = { 1: { RegionName: 'Oslo' } as TailnetDERPRegion };
  assert.deepEqual(relayLatencies({ node: null, home: 7, latencies: { 1: 0.5, 7: 0.25 } }, { Regions }), [
    { region: 'Oslo', seconds: 0.5, preferred: false },
    { region: 'Unnamed 7', seconds: 0.25, preferred: true },
  ]);
});
