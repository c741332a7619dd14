import type { Allowed } from '../../authz/authorize.ts';
import type { Db, Tx } from '../connect.ts';
import type { OrganizationRow } from '../rows.ts';

export interface ProvisionerKeyRow {
  id: string;
  organization_id: string;
  name: string;
  tags: Record<string, string>;
  created_at: Date;
}

const COLUMNS = (db: Db) => db`id, organization_id, name, tags, created_at`;

export async function provisionerKeyBySecret(db: Db, hashedSecret: Buffer): Promise<ProvisionerKeyRow | undefined> {
  const [row] = await db<ProvisionerKeyRow[]>`SELECT ${COLUMNS(db)} FROM provisioner_keys
    WHERE hashed_secret = ${hashedSecret}`;
  return row;
}

/** Oldest first. */
export async function provisionerKeysOf(db: Db, organizationId: string): Promise<ProvisionerKeyRow[]> {
  return db<ProvisionerKeyRow[]>`SELECT ${COLUMNS(db)} FROM provisioner_keys
    WHERE organization_id = ${organizationId} ORDER BY created_at, name`;
}

/** The keys among these that were not deleted. */
export async function existingProvisionerKeys(db: Db, ids: string[]): Promise<string[]> {
  const rows = await db<{ id: string }[]>`SELECT id::text FROM provisioner_keys WHERE id = ANY(${ids}::uuid[])`;
  return rows.map(({ id }) => id);
}

/** An organization in which the actor may do this to provisioner keys, which are permissions to run daemons. */
export type KeyPlace<A extends 'create' | 'delete'> = Allowed<
  A,
  { type: 'provisioner_daemon'; organizationId: string }
>;

export async function insertProvisionerKey(
  tx: Tx,
  { organizationId }: KeyPlace<'create'>,
  key: { name: string; hashed_secret: Buffer; tags: Record<string, string> },
): Promise<string> {
  const [row] = await tx<{ id: string }[]>`
    INSERT INTO provisioner_keys (organization_id, name, hashed_secret, tags)
    VALUES (${organizationId}, ${key.name}, ${key.hashed_secret}, ${tx.json(key.tags)}) RETURNING id`;
  return row!.id;
}

export async function deleteProvisionerKey(
  tx: Tx,
  { organizationId }: KeyPlace<'delete'>,
  name: string,
): Promise<{ id: string; name: string } | undefined> {
  const [row] = await tx<{ id: string; name: string }[]>`DELETE FROM provisioner_keys
    WHERE organization_id = ${organizationId} AND name = ${name} RETURNING id, name`;
  return row;
}

/** Deletes all keys of an organization that is being deleted. Returns their ids. */
export async function deleteProvisionerKeysOf(
  tx: Tx,
  organization: Allowed<'delete', OrganizationRow>,
): Promise<string[]> {
  const rows = await tx<{ id: string }[]>`
    DELETE FROM provisioner_keys WHERE organization_id = ${organization.id} RETURNING id`;
  return rows.map(({ id }) => id);
}
