import type { ProvisionerKey } from '@ropewalk/contract';
import { command } from '../../framework/definition.ts';
import { note } from '../../framework/io.ts';
import { orgFlag, tableFlags } from '../../lib/flags.ts';
import { findOrganization } from '../../lib/organization.ts';
import { type Columns, printRows } from '../../lib/output.ts';

const columns = {
  'created at': (one) => one.created_at,
  name: (one) => one.name,
  tags: (one) =>
    Object.entries(one.tags)
      .map(([key, value]) => `${key}=${value}`)
      .sort()
      .join(' '),
} satisfies Columns<ProvisionerKey>;

const flags = { ...orgFlag, ...tableFlags(Object.keys(columns) as (keyof typeof columns)[]) } as const;

export default command({ flags }, async (ctx, { flags: given }) => {
  const client = await ctx.client();
  const organization = await findOrganization(client, given.org);
  const keys = await client.call('GET /organizations/{organization}/provisionerkeys', {
    params: { organization: organization.id },
  });
  if (keys.length === 0 && given.output !== 'json') {
    note(ctx.io, 'No provisioner keys found.');
    return;
  }
  printRows(ctx, given, columns, keys);
});
