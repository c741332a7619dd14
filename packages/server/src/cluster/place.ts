import type { Services } from '../app/context/context.ts';
import { placeOfAgent } from '../db/queries/replicas.ts';
import type { Peers } from './peers.ts';

/** How a server says that an agent is not connected to it, for example because it has just moved. */
export const NOT_HERE = 'not here';

/** The other live server that an agent is connected to, as far as the database says. */
export async function otherPlace(
  { sql, replicaId }: Pick<Services, 'sql' | 'replicaId'>,
  peers: Peers,
  agentId: string,
): Promise<{ place?: string; isRecent: boolean }> {
  const { replica_id: place, is_recent: isRecent } = await placeOfAgent(sql, agentId);
  if (place === null || place === replicaId) return { isRecent };
  // a server that has just started
  if (!peers.has(place)) await peers.refresh();
  return peers.has(place) ? { place, isRecent } : { isRecent };
}
