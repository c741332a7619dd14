import type { TailnetDERPMap } from '@ropewalk/contract';
import { ownValue } from '@ropewalk/kit/own-value';
import type { AgentNetwork } from '../../db/rows.ts';

export interface RelayLatency {
  /** The name of the region. One that is not in the map has upstream's name for it. */
  region: string;
  seconds: number;
  preferred: boolean;
}

/** The latencies between an agent and the regions of a map. Names are unique: of several regions with one, the last counts. */
export function relayLatencies(
  { home, latencies }: AgentNetwork,
  { Regions }: Pick<TailnetDERPMap, 'Regions'>,
): RelayLatency[] {
  const byName = new Map<string, RelayLatency>();
  for (const [id, seconds] of Object.entries(latencies)) {
    const region = ownValue(Regions, id)?.RegionName ?? `Unnamed ${id}`;
    byName.set(region, { region, seconds, preferred: home === Number(id) });
  }
  return [...byName.values()];
}
