import type { Allowed } from '../../authz/authorize.ts';
import type { Db, Tx } from '../connect.ts';
import type { UserRow } from '../rows.ts';

/** What a person chose about the dashboard's display. Keys that are absent have their default. */
export async function preferencesOf(db: Db, userId: string): Promise<object> {
  const [row] = await db<{ settings: object }[]>`SELECT settings FROM user_preferences WHERE user_id = ${userId}`;
  return row?.settings ?? {};
}

/** Adds these keys to what the person chose. Returns all. */
export async function addPreferences(
  tx: Tx,
  user: Allowed<'update_personal', UserRow>,
  given: object,
): Promise<object> {
  const [row] = await tx<{ settings: object }[]>`INSERT INTO user_preferences AS p (user_id, settings)
    VALUES (${user.id}, ${tx.json(given as never)})
    ON CONFLICT (user_id) DO UPDATE SET settings = p.settings || excluded.settings RETURNING settings`;
  return row!.settings;
}
