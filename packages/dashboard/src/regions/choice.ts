/**
 * Which region a person's apps and terminals use. The servers are the primary region, and each workspace proxy is another.
 * A person chooses one. Otherwise the fastest one counts, as this browser measured it.
 */
import type { Region } from '@ropewalk/contract';

/** The name of the region of the servers. */
const PRIMARY = 'primary';

/** The round-trip time, or why there is none. `blocked`: this page was loaded before the region became healthy. */
export type Latency = { ms: number } | { failure: 'unreachable' | 'blocked' };
export type Latencies = ReadonlyMap<string, Latency>;

/** What a browser remembers, as keys of regions. */
export interface StoredChoice {
  /** What the person chose. Absent: the fastest. */
  chosen?: string | undefined;
  /** The fastest one at the last measurement. */
  fastest?: string | undefined;
}

export const isPrimary = ({ name }: Pick<Region, 'name'>): boolean => name === PRIMARY;

/** What is remembered of a region. Of the primary one it needs no question to the server. */
export const regionKey = (region: Pick<Region, 'id' | 'name'>): string => (isPrimary(region) ? PRIMARY : region.id);

export const regionName = ({ display_name, name }: Pick<Region, 'display_name' | 'name'>): string =>
  display_name || name;

/** Whether a choice can be another region than the primary one. */
export const mayUseProxy = ({ chosen, fastest }: StoredChoice): boolean => (chosen ?? fastest ?? PRIMARY) !== PRIMARY;

/**
 * The region to use: the chosen one, the fastest one, or the primary one. A chosen region that is not healthy is
 * `missed`. Without regions, because they are not loaded yet, there is none.
 */
export function pickRegion(
  regions: readonly Region[],
  { chosen, fastest }: StoredChoice,
): { region: Region | undefined; missed?: Region } {
  const find = (key: string | undefined) => regions.find((region) => regionKey(region) === key);
  const wanted = find(chosen);
  if (wanted?.healthy) return { region: wanted };
  const quick = find(fastest);
  const region = quick?.healthy ? quick : find(PRIMARY);
  return wanted ? { region, missed: wanted } : { region };
}

/** A region replaces another one only if it is faster by this part of its time and by this much, in ms. */
const BETTER_BY = 0.2;
const BETTER_BY_MS = 5;

/**
 * The fastest healthy region. The one before stays while no other is clearly faster, so that links do not change with
 * each measurement. Where there was none before, that is the primary one.
 */
export function fastestRegion(
  regions: readonly Region[],
  latencies: Latencies,
  before: string | undefined = PRIMARY,
): string | undefined {
  const measured = regions.flatMap((region) => {
    const latency = latencies.get(regionKey(region));
    return region.healthy && latency && 'ms' in latency ? [{ key: regionKey(region), ms: latency.ms }] : [];
  });
  const [best] = measured.toSorted((a, b) => a.ms - b.ms);
  const held = measured.find(({ key }) => key === before);
  if (!best || !held) return best?.key;
  const isClear = held.ms - best.ms > Math.max(BETTER_BY_MS, held.ms * BETTER_BY);
  return isClear ? best.key : held.key;
}

/** Where apps and ports open. */
export interface AppServer {
  /** What precedes the path of an app. Empty: this host. */
  base: string;
  /** The pattern of the hosts of apps. Empty: apps and ports have no hosts. */
  wildcard: string;
  /** The scheme of these hosts, with a colon. */
  protocol: string;
}

/**
 * Where apps and ports open in a region.
 * @param protocol of the page, which the hosts of the primary region share
 */
export function appServerOf(
  region: Region | undefined,
  regions: readonly Pick<Region, 'name' | 'wildcard_hostname'>[],
  protocol: string,
): AppServer {
  const own = { wildcard: regions.find(isPrimary)?.wildcard_hostname ?? '', protocol };
  if (!region || isPrimary(region)) return { base: '', ...own };
  const base = region.path_app_url.replace(/\/+$/, '');
  // a region without hosts for apps still opens the apps that need none
  if (region.wildcard_hostname === '') return { base, ...own };
  return { base, wildcard: region.wildcard_hostname, protocol: new URL(base).protocol };
}

/** The address of a program's terminal in a region. */
export function terminalAddress(region: Region | undefined, agentId: string, here: string): URL {
  const address = new URL(`/api/v2/workspaceagents/${agentId}/pty`, region ? region.path_app_url : here);
  address.protocol = address.protocol.replace('http', 'ws');
  return address;
}

/** What a browser remembers, from the text that it stored. Anything else counts as nothing. */
export function parseChoice(text: string | null): StoredChoice {
  try {
    const { chosen, fastest } = (JSON.parse(text ?? '') ?? {}) as Record<string, unknown>;
    return {
      ...(typeof chosen === 'string' ? { chosen } : {}),
      ...(typeof fastest === 'string' ? { fastest } : {}),
    };
  } catch {
    return {};
  }
}
