import type { Region } from '@ropewalk/contract';
import { errorText } from '@ropewalk/kit/errors';
import type { Client } from '../client.ts';
import { nodeFetchWith } from '../node-fetch.ts';

/** The name of the region of the servers. */
export const PRIMARY = 'primary';

const TIMEOUT_MS = 3_000;
/** The first request opens the connection. */
const REQUESTS = 3;
/** Regions that are measured at a time, and in all: a deployment has a few. */
const LANES = 8;
const MAX_REGIONS = 32;

export interface MeasuredRegion {
  region: Region;
  /** The shortest round trip to the region, in ms. Undefined if it does not answer. */
  ms: number | undefined;
  /** Why it does not answer. */
  error: string | undefined;
}

/** Whether this program may use a region: a proxy, and never one without TLS for a server with TLS. */
export function mayUse({ url, region: wanted }: Pick<Client, 'url' | 'region'>, region: Region): boolean {
  const { name, healthy, path_app_url: address } = region;
  if (name === PRIMARY || !healthy || !/^https?:/.test(address)) return false;
  if (url.startsWith('https:') && !address.startsWith('https:')) return false;
  return wanted === '' || wanted === name;
}

/** Measures the round trip to each of these regions. Never rejects. */
export async function measureRegions(
  client: Client,
  regions: readonly Region[],
  signal: AbortSignal,
): Promise<MeasuredRegion[]> {
  const measured: MeasuredRegion[] = [];
  const waiting = regions.slice(0, MAX_REGIONS).entries();
  const work = async () => {
    for (const [index, region] of waiting) measured[index] = await measureRegion(client, region, signal);
  };
  await Promise.all(Array.from({ length: LANES }, work));
  return measured;
}

async function measureRegion(client: Client, region: Region, signal: AbortSignal): Promise<MeasuredRegion> {
  if (region.path_app_url === '') return { region, ms: undefined, error: 'It has no address.' };
  const fetch = nodeFetchWith(client.tls);
  const url = `${region.path_app_url.replace(/\/$/, '')}/latency-check`;
  // headers are for this program's own server
  const headers = region.name === PRIMARY ? { ...client.headers } : {};
  let best = Number.POSITIVE_INFINITY;
  try {
    for (let i = 0; i < REQUESTS; i++) {
      const from = performance.now();
      const limit = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
      const answer = await fetch(url, { method: 'GET', headers, signal: limit });
      await answer.text();
      if (answer.status !== 200) throw new Error(`${url} answered with status ${answer.status}`);
      best = Math.min(best, performance.now() - from);
    }
    return { region, ms: best, error: undefined };
  } catch (err) {
    return { region, ms: undefined, error: errorText(err) };
  }
}
