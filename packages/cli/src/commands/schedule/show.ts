import type { Workspace } from '@platform/contract';
import { command } from '../../framework/definition.ts';
import { tableFlags, workspaceSearchFlags } from '../../lib/flags.ts';
import { printRows } from '../../lib/output.ts';
import { searchWorkspaces } from '../../lib/pages.ts';
import { scheduleColumnNames, scheduleColumns } from '../../lib/schedule-table.ts';
import { findWorkspace } from '../../lib/workspace.ts';

const flags = {
  ...workspaceSearchFlags,
  ...tableFlags(scheduleColumnNames),
} as const;

export default command(
  { args: { workspace: { optional: true } }, flags },
  async (ctx, { args, flags: given, isSet }) => {
    const client = await ctx.client();
    let found: Workspace[];
    if (args.workspace === undefined) {
      const q = given.all && !isSet('search') ? '' : given.search;
      found = await searchWorkspaces(client, q);
    } else found = [await findWorkspace(client, args.workspace)];
    printRows(ctx, given, scheduleColumns, found);
  },
);
