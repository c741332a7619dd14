import type { Sql } from '../db/connect.ts';
import type { EventMap } from '../db/events.ts';
import { deletedApiKeys } from '../db/queries/apikeys.ts';
import { usersWithoutAccess } from '../db/queries/users.ts';

/** Ids of people and API keys that no longer have access. */
export interface RevokedHolders {
  users: string[];
  keys: string[];
}

/** Those of a revocation's ids that are really gone: the event also names people whose roles have only changed. */
export async function revokedHolders(
  sql: Sql,
  { api_key_ids: keys = [], user_ids: users = [] }: EventMap['revoked'],
): Promise<RevokedHolders> {
  const [goneKeys, goneUsers] = await Promise.all([
    keys.length === 0 ? [] : deletedApiKeys(sql, keys),
    users.length === 0 ? [] : usersWithoutAccess(sql, users),
  ]);
  return { users: goneUsers, keys: goneKeys };
}
