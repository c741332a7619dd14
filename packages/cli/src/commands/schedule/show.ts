import type { Workspace } from '@platform/contract';
import { command } from '../../framework/definition.ts';
import { printRows, tableFlags } from '../../lib/output.ts';
import { scheduleColumnNames, scheduleColumns } from '../../lib/schedule-table.ts';
import { findWorkspace } from '../../lib/workspace.ts';

const flags = {
  all: { type: 'bool', short: 'a', description: 'Also those of other people.' },
  search: { type: 'string', default: 'owner:me', description: 'A search, such as status:running.' },
  ...tableFlags(scheduleColumnNames),
} as const;

export default command(
  { args: { workspace: { optional: true } }, flags },
  async (ctx, { args, flags: given, isSet }) => {
    const client = await ctx.client();
    let found: Workspace[];
    if (args.workspace === undefined) {
      const q = given.all && !isSet('search') ? '' : given.search;
      found = (await client.call('GET /workspaces', { query: { q } })).workspaces;
    } else found = [await findWorkspace(client, args.workspace)];
    printRows(ctx, given, scheduleColumns, found);
  },
);
