import { notFound } from '../../authz/not-found.ts';
import type { Db } from '../../db/connect.ts';
import { isUuid, NIL_UUID } from '../ids.ts';

export interface OrganizationRow {
  id: string;
  name: string;
  display_name: string;
  description: string;
  icon: string;
  is_default: boolean;
  deleted: boolean;
  created_at: Date;
  updated_at: Date;
}

/** The organization of a path segment: an id, a name, `default` or the nil id. */
export async function findOrganization(db: Db, text: string): Promise<OrganizationRow> {
  const isDefault = text === 'default' || text === NIL_UUID;
  const [row] = isDefault
    ? await db<OrganizationRow[]>`SELECT * FROM organizations WHERE is_default`
    : isUuid(text)
      ? await db<OrganizationRow[]>`SELECT * FROM organizations WHERE id = ${text} AND NOT deleted`
      : await db<OrganizationRow[]>`SELECT * FROM organizations WHERE lower(name) = lower(${text}) AND NOT deleted`;
  if (!row) throw notFound();
  return row;
}
