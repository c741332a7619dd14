import type { Sql } from '../db/connect.ts';
import type { EventMap } from '../db/events.ts';

/** Ids of people and API keys that may do nothing any more. */
export interface RevokedHolders {
  users: string[];
  keys: string[];
}

/** Those of a revocation's ids that are really gone: it is also said of people whose roles have only changed. */
export async function revokedHolders(
  sql: Sql,
  { api_key_ids: keys = [], user_ids: users = [] }: EventMap['revoked'],
): Promise<RevokedHolders> {
  const [goneKeys, goneUsers] = await Promise.all([
    keys.length === 0
      ? []
      : sql<{ id: string }[]>`SELECT k.id FROM unnest(${keys}::text[]) AS k (id)
          WHERE NOT EXISTS (SELECT FROM api_keys WHERE api_keys.id = k.id)`,
    users.length === 0
      ? []
      : sql<{ id: string }[]>`SELECT u.id::text FROM unnest(${users}::text[]::uuid[]) AS u (id)
          WHERE NOT EXISTS (SELECT FROM users WHERE users.id = u.id AND NOT deleted AND status <> 'suspended')`,
  ]);
  return { users: goneUsers.map(({ id }) => id), keys: goneKeys.map(({ id }) => id) };
}
