import type { Sql } from '../../db/connect.ts';
import type { EventMap } from '../../db/events.ts';
import { deletedApiKeys } from '../../db/queries/apikeys.ts';
import { usersWithoutAccess } from '../../db/queries/users.ts';

/** Ids of users and API keys that no longer have access. */
export interface RevokedHolders {
  users: string[];
  keys: string[];
}

/** The ids of a revocation that really lost access: the event also names users whose roles have changed. */
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
