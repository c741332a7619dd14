import type { TailnetDERPNode, TailnetDERPRegion } from '@ropewalk/contract';
import { errorText } from '@ropewalk/kit/errors';
import { measureRelay } from '@ropewalk/tailnet/derp/dial';
import { relayUrl } from '@ropewalk/tailnet/derp/map';
import type { Client } from '../client.ts';

/** The first request loads code. */
const REQUESTS = 3;
const MAX_REGIONS = 32;

export interface MeasuredRelay {
  /** The name of the region. */
  name: string;
  /** The shortest round trip, in ms. */
  latency_ms: number | null;
  error: string | null;
}

/** Measures the round trip to the relays of the server's map, by the number of their region. Empty if there is no map. */
export async function measureRelays(client: Client, signal: AbortSignal): Promise<Record<string, MeasuredRelay>> {
  const regions = await client.call('GET /workspaceagents/connection').then(
    ({ derp_map: map }) => Object.entries(map?.Regions ?? {}),
    () => [],
  );
  const relays = regions.flatMap(([id, region]) => {
    const node = region.Nodes.find(({ STUNOnly }) => !STUNOnly);
    return node ? [{ id, region, node }] : [];
  });
  const measured = relays
    .slice(0, MAX_REGIONS)
    .map(async ({ id, region, node }) => [id, await measure(client, region, node, signal)] as const);
  return Object.fromEntries(await Promise.all(measured));
}

async function measure(
  { url, headers, tls }: Client,
  { RegionName: name, EmbeddedRelay: isEmbedded }: TailnetDERPRegion,
  { HostName: hostName, DERPPort: derpPort, ForceHTTP: forceHttp }: TailnetDERPNode,
  signal: AbortSignal,
): Promise<MeasuredRelay> {
  const own = { tls, signal, ...(isEmbedded ? { headers: { ...headers } } : {}) };
  const at = isEmbedded ? url : relayUrl({ hostName, derpPort, forceHttp });
  const times: number[] = [];
  try {
    for (let i = 0; i < REQUESTS; i++) times.push(await measureRelay(at, own));
    return { name, latency_ms: Math.min(...times), error: null };
  } catch (err) {
    signal.throwIfAborted();
    return { name, latency_ms: null, error: errorText(err) };
  }
}
