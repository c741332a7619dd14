import type { AssignableRoles } from '@platform/contract';
import { command } from '../../framework/definition.ts';
import { orgFlag, tableFlags } from '../../lib/flags.ts';
import { findOrganization } from '../../lib/organization.ts';
import { type Columns, printRows } from '../../lib/output.ts';

const count = (list: readonly unknown[]) => `${list.length} permissions`;

const columns = {
  name: (one) => one.name,
  'display name': (one) => one.display_name,
  'organization id': (one) => one.organization_id ?? '',
  'site permissions': (one) => count(one.site_permissions),
  'organization permissions': (one) => count(one.organization_permissions),
  'user permissions': (one) => count(one.user_permissions),
} satisfies Columns<AssignableRoles>;

const flags = {
  ...tableFlags(Object.keys(columns) as (keyof typeof columns)[], [
    'name',
    'display name',
    'site permissions',
    'organization permissions',
    'user permissions',
  ]),
  ...orgFlag,
} as const;

export default command(
  { args: { roles: { usage: 'role_names', rest: true, optional: true } }, flags },
  async (ctx, { args, flags: given }) => {
    const client = await ctx.client();
    const organization = await findOrganization(client, given.org);
    const roles = await client.call('GET /organizations/{organization}/members/roles', {
      params: { organization: organization.id },
    });
    const wanted = args.roles.map((name) => name.toLowerCase());
    const shown = roles.filter(({ name }) => wanted.length === 0 || wanted.includes(name.toLowerCase()));
    printRows(ctx, given, columns, shown);
  },
);
