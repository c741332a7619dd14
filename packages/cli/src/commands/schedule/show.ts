import type { Workspace } from '@ropewalk/contract';
import { command } from '../../framework/definition.ts';
import { note, print } from '../../framework/io.ts';
import { tableFlags, workspaceSearchFlags } from '../../lib/flags.ts';
import { printTable } from '../../lib/output.ts';
import { searchWorkspaces } from '../../lib/pages.ts';
import { findWorkspace } from '../../lib/workspace.ts';
import { scheduleColumnNames, scheduleColumns, scheduleRow } from './columns.ts';

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
    if (given.output === 'json') print(ctx.io, JSON.stringify(found.map(scheduleRow), null, 2));
    else if (found.length === 0) note(ctx.io, 'No schedules found.');
    else printTable(ctx, given.column, scheduleColumns, found);
  },
);
