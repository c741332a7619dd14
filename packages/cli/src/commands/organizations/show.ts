import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { columnFlag, orgFlag, outputFlag } from '../../lib/flags.ts';
import { findOrganization } from '../../lib/organization.ts';
import { printTable } from '../../lib/output.ts';
import { organizationColumnNames, organizationColumns } from './columns.ts';

const flags = {
  'only-id': { type: 'bool', description: 'Print only the ID.' },
  ...columnFlag(organizationColumnNames, ['id', 'name', 'default']),
  ...outputFlag('text', 'table', 'json'),
  ...orgFlag,
} as const;

export default command(
  { args: { which: { usage: 'selected|me|uuid|org_name', optional: true } }, flags },
  async (ctx, { args, flags: given }) => {
    const client = await ctx.client();
    const which = args.which ?? 'selected';
    const found =
      which === 'me'
        ? await client.call('GET /users/{user}/organizations', { params: { user: 'me' } })
        : [await findOrganization(client, which === 'selected' ? given.org : which)];
    if (given['only-id']) for (const { id } of found) print(ctx.io, id);
    else if (given.output === 'json') print(ctx.io, JSON.stringify(found, null, 2));
    else if (given.output === 'table' || which === 'me') printTable(ctx, given.column, organizationColumns, found);
    else print(ctx.io, `${found[0]!.name} (${found[0]!.id})`);
  },
);
