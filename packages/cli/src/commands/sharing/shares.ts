import type { Client } from '@ropewalk/client';
import type { UpdateWorkspaceACL, Workspace, WorkspaceRole } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit/errors';
import type { Context } from '../../framework/context.ts';
import { tableFlags } from '../../lib/flags.ts';
import { findGroup, membersNamed } from '../../lib/group.ts';
import { findOrganization } from '../../lib/organization.ts';
import { type Columns, printRows } from '../../lib/output.ts';

/** A person or a group that a workspace is shared with. The other one is "-", as in upstream's table. */
export interface Share {
  user: string;
  group: string;
  role: WorkspaceRole;
}

const columns = {
  user: ({ user }) => user,
  group: ({ group }) => group,
  role: ({ role }) => role,
} satisfies Columns<Share>;

export const shareFlags = tableFlags(Object.keys(columns) as (keyof typeof columns)[]);

/** The flags that name people and groups. Only a new share has a role. */
export const namingFlags = {
  user: {
    type: 'string[]',
    description:
      'Usernames of members of the organization, separated by commas. A new share can end in ":use" or ":admin".',
  },
  group: {
    type: 'string[]',
    description: 'Names of groups of the organization, separated by commas. A new share can end in ":use" or ":admin".',
  },
  ...shareFlags,
} as const;

/** Prints the people and groups that a workspace is shared with. */
export async function printShares(
  ctx: Context,
  client: Client,
  { id: workspace }: Workspace,
  flags: Parameters<typeof printRows>[1],
): Promise<void> {
  const { users, group: groups } = await client.call('GET /workspaces/{workspace}/acl', { params: { workspace } });
  printRows(ctx, flags, columns, [
    ...users.map(({ username, role }): Share => ({ user: username, group: '-', role })),
    ...groups.map(({ name, role }): Share => ({ user: '-', group: name, role })),
  ]);
}

const ROLES: readonly string[] = ['use', 'admin'] satisfies WorkspaceRole[];

/** Parses `name` or `name:role`. */
function shareOf(text: string): { name: string; role: WorkspaceRole } {
  const [name, role = 'use', more] = text.split(':');
  if (!name || more !== undefined || !ROLES.includes(role))
    throw new AppError('invalid', `Invalid share ${JSON.stringify(text)}: use NAME, NAME:use or NAME:admin.`);
  return { name, role: role as WorkspaceRole };
}

interface Given {
  user: string[];
  group: string[];
}

/** The people and groups that flags name, each with a role. `take`: takes the workspace back from them. */
export async function aclOf(
  client: Client,
  { organization_id: id }: Workspace,
  { user, group }: Given,
  take = false,
): Promise<UpdateWorkspaceACL> {
  if (user.length + group.length === 0)
    throw new AppError('invalid', 'Nobody to change: name people with --user or groups with --group.');
  const parse = (text: string) => (take ? { name: text, role: '' as const } : shareOf(text));
  const users = user.map(parse);
  const groups = group.map(parse);
  const organization = await findOrganization(client, id);
  const [userIds] = await membersNamed(client, organization, [users.map(({ name }) => name)]);
  const found = await Promise.all(groups.map(({ name }) => findGroup(client, organization, name)));
  return {
    user_roles: Object.fromEntries(users.map(({ role }, at) => [userIds![at]!, role])),
    group_roles: Object.fromEntries(groups.map(({ role }, at) => [found[at]!.id, role])),
  };
}
