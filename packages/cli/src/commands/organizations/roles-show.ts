import { command } from '../../framework/definition.ts';
import { orgFlag, tableFlags } from '../../lib/flags.ts';
import { findOrganization } from '../../lib/organization.ts';
import { printRows } from '../../lib/output.ts';
import { defaultRoleColumns, roleColumnNames, roleColumns } from './role.ts';

const flags = { ...tableFlags(roleColumnNames, defaultRoleColumns), ...orgFlag } as const;

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
    printRows(ctx, given, roleColumns, shown);
  },
);
