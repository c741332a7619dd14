import type { OrganizationMemberWithUserData } from '@ropewalk/contract';
import { command } from '../../framework/definition.ts';
import { orgFlag, tableFlags } from '../../lib/flags.ts';
import { findOrganization } from '../../lib/organization.ts';
import { type Columns, printRows } from '../../lib/output.ts';

const columns = {
  username: (one) => one.username,
  name: (one) => one.name ?? '',
  'last seen at': (one) => one.last_seen_at,
  'user created at': (one) => one.user_created_at,
  'user updated at': (one) => one.user_updated_at,
  'user id': (one) => one.user_id,
  'organization id': (one) => one.organization_id,
  'created at': (one) => one.created_at,
  'updated at': (one) => one.updated_at,
  'organization roles': (one) => one.roles.map((role) => role.display_name || role.name).join(', '),
} satisfies Columns<OrganizationMemberWithUserData>;

const flags = {
  ...tableFlags(Object.keys(columns) as (keyof typeof columns)[], ['username', 'organization roles']),
  ...orgFlag,
} as const;

export default command({ flags }, async (ctx, { flags: given }) => {
  const client = await ctx.client();
  const organization = await findOrganization(client, given.org);
  const params = { organization: organization.id };
  printRows(ctx, given, columns, await client.call('GET /organizations/{organization}/members', { params }));
});
