import { command } from '../../framework/definition.ts';
import { note } from '../../framework/io.ts';
import { tableFlags } from '../../lib/flags.ts';
import { printRows } from '../../lib/output.ts';
import { organizationColumnNames, organizationColumns } from './columns.ts';

const flags = tableFlags(organizationColumnNames, ['name', 'display name', 'id', 'default']);

export default command({ flags, help: 'Shows the organizations that you may read.' }, async (ctx, { flags: given }) => {
  const organizations = await (await ctx.client()).call('GET /organizations');
  if (organizations.length === 0 && given.output !== 'json') {
    note(ctx.io, 'No organizations found.');
    return;
  }
  printRows(ctx, given, organizationColumns, organizations);
});
