import type { Db } from '../../db/connect.ts';

/** Id of the one default organization; made with the database. */
export async function defaultOrganizationId(db: Db): Promise<string> {
  const [row] = await db<{ id: string }[]>`SELECT id FROM organizations WHERE is_default`;
  return row!.id;
}

/** Makes the default organization where there is none. Several servers may try at once. */
export async function ensureDefaultOrganization(db: Db): Promise<void> {
  await db`INSERT INTO organizations (name, display_name, is_default) VALUES ('coder', 'Coder', true)
    ON CONFLICT DO NOTHING`;
}
