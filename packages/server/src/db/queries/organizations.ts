import type { Db } from '../connect.ts';

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

export async function defaultOrganization(db: Db): Promise<OrganizationRow | undefined> {
  const [row] = await db<OrganizationRow[]>`SELECT * FROM organizations WHERE is_default`;
  return row;
}

export async function organizationById(db: Db, id: string): Promise<OrganizationRow | undefined> {
  const [row] = await db<OrganizationRow[]>`SELECT * FROM organizations WHERE id = ${id} AND NOT deleted`;
  return row;
}

export async function organizationByName(db: Db, name: string): Promise<OrganizationRow | undefined> {
  const [row] = await db<
    OrganizationRow[]
  >`SELECT * FROM organizations WHERE lower(name) = lower(${name}) AND NOT deleted`;
  return row;
}
