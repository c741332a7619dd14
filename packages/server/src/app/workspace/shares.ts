// Who a workspace is shared with, as answers show it.

import type { SharedWorkspaceActor, WorkspaceRole } from '@ropewalk/contract';
import { ownValue } from '@ropewalk/kit/own-value';
import type { Db } from '../../db/connect.ts';
import { namesInAcls } from '../../db/queries/acls.ts';
import type { Acls, WorkspaceRow } from '../../db/rows.ts';
import type { Ctx } from '../context/context.ts';

/** A workspace whose lists are empty if they have no effect. */
export const inForce = <Row extends Acls>({ config }: Pick<Ctx, 'config'>, row: Row): Row =>
  config.disableWorkspaceSharing ? { ...row, user_acl: {}, group_acl: {} } : row;

/** The people and groups that workspaces are shared with, by workspace, with one query for any number. */
export async function sharesOf(
  ctx: Ctx,
  db: Db,
  rows: readonly WorkspaceRow[],
): Promise<Map<string, SharedWorkspaceActor[]>> {
  const lists = rows.map((row) => inForce(ctx, row));
  const users = new Set(lists.flatMap(({ user_acl }) => Object.keys(user_acl)));
  const groups = new Set(lists.flatMap(({ group_acl }) => Object.keys(group_acl)));
  if (users.size + groups.size === 0) return new Map();
  const known = Map.groupBy(
    await namesInAcls(db, { users: [...users], groups: [...groups] }),
    ({ organization_id: id }) => id,
  );
  return new Map(
    lists.map(({ id, organization_id, user_acl, group_acl }) => [
      id,
      (known.get(organization_id) ?? []).flatMap((one) => {
        const role = ownValue(one.type === 'user' ? user_acl : group_acl, one.id);
        if (role === undefined) return [];
        const { type, name, avatar_url } = one;
        return [{ id: one.id, actor_type: type, name, avatar_url, roles: [role as WorkspaceRole] }];
      }),
    ]),
  );
}
