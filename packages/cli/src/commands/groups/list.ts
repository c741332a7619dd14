import type { Group } from '@ropewalk/contract';
import { command } from '../../framework/definition.ts';
import { note } from '../../framework/io.ts';
import { orgFlag, tableFlags } from '../../lib/flags.ts';
import { findOrganization } from '../../lib/organization.ts';
import { type Columns, printRows } from '../../lib/output.ts';

const columns = {
  name: (one) => one.name,
  'display name': (one) => one.display_name,
  'organization id': (one) => one.organization_id,
  members: (one) => one.members.map(({ email }) => email).join(', '),
  'avatar url': (one) => one.avatar_url,
  'quota allowance': (one) => String(one.quota_allowance),
} satisfies Columns<Group>;

const flags = {
  ...tableFlags(Object.keys(columns) as (keyof typeof columns)[], [
    'name',
    'display name',
    'organization id',
    'members',
    'avatar url',
  ]),
  ...orgFlag,
} as const;

export default command({ flags }, async (ctx, { flags: given }) => {
  const client = await ctx.client();
  const organization = await findOrganization(client, given.org);
  const groups = await client.call('GET /organizations/{organization}/groups', {
    params: { organization: organization.id },
  });
  printRows(ctx, given, columns, groups, (Group) => ({ Group }));
  if (given.output === 'table' && groups.length <= 1) {
    note(ctx.io, `Create a group in ${organization.name}: coder groups create <name>`);
  }
});
