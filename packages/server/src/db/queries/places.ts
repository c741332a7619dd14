// The organization and owner of an object, for permission checks by id.

import type { Db } from '../connect.ts';

const STATEMENTS = {
  workspace: 'SELECT organization_id, owner_id, user_acl, group_acl FROM workspaces WHERE id = $1',
  template: 'SELECT organization_id, user_acl, group_acl FROM templates WHERE id = $1',
  group: `SELECT organization_id, '{}'::jsonb AS user_acl, jsonb_build_object(id, 'use') AS group_acl FROM groups WHERE id = $1`,
  user: 'SELECT id AS owner_id FROM users WHERE id = $1',
  organization: 'SELECT id AS organization_id FROM organizations WHERE id = $1',
  file: 'SELECT created_by AS owner_id FROM files WHERE id = $1',
};

/** Types of objects that a check may name by id. */
export type PlacedType = keyof typeof STATEMENTS;

export const isPlacedType = (type: string): type is PlacedType => Object.hasOwn(STATEMENTS, type);

export interface Place {
  organization_id?: string;
  owner_id?: string;
  user_acl?: Record<string, string>;
  group_acl?: Record<string, string>;
}

export async function placeOf(db: Db, type: PlacedType, id: string): Promise<Place | undefined> {
  const [row] = await db.unsafe<Place[]>(STATEMENTS[type], [id]);
  return row;
}
