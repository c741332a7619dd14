import type { Node } from '@ropewalk/wire/proto/tailnet';
import type { AgentNetwork } from '../../db/rows.ts';

/** Maximum number of relay regions whose latencies are kept for an agent, and the longest of them in seconds. */
const MAX_REGIONS = 64;
const MAX_SECONDS = 60;
/** Of nodes: the number of a region, then the family of addresses. */
const REGION = /^([1-9]\d{0,8})(?:-v[46])?$/;

/** Whole 10 µs: what is below only makes the rows of agents longer. */
const rounded = (seconds: number) => Math.round(seconds * 1e5) / 1e5;

/**
 * What is stored of an agent's network. Its node, which it sends itself, has a latency for each region and family of
 * addresses: the lower one counts. An agent that has not joined the tailnet reaches the others through this server, so its
 * round trip to here counts as the latency of this server's relay. Undefined if nothing is known.
 */
export function agentNetwork(
  node: Node | undefined,
  roundTrip: { region: number; ms: number } | undefined,
): AgentNetwork | undefined {
  if (!node) {
    if (!roundTrip) return undefined;
    const { region, ms } = roundTrip;
    return { node: null, home: region, latencies: { [region]: rounded(ms / 1_000) } };
  }
  const { id, preferredDerp: home } = node;
  const latencies = new Map<number, number>();
  for (const [name, seconds] of Object.entries(node.derpLatency)) {
    const region = Number(REGION.exec(name)?.[1] ?? Number.NaN);
    if (Number.isNaN(region) || !(seconds >= 0 && seconds <= MAX_SECONDS)) continue;
    if (!latencies.has(region) && region !== home && latencies.size >= MAX_REGIONS) continue;
    latencies.set(region, Math.min(latencies.get(region) ?? Number.POSITIVE_INFINITY, rounded(seconds)));
  }
  return { node: String(id), home, latencies: Object.fromEntries(latencies) };
}
