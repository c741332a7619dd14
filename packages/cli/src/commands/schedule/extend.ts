import { command } from '../../framework/definition.ts';
import { printTable } from '../../lib/output.ts';
import { parseMinutes } from '../../lib/schedule.ts';
import { findWorkspace } from '../../lib/workspace.ts';
import { scheduleColumnNames, scheduleColumns } from './columns.ts';

export default command({ args: { workspace: {}, duration: { usage: 'duration-from-now' } } }, async (ctx, { args }) => {
  const client = await ctx.client();
  const workspace = await findWorkspace(client, args.workspace);
  const deadline = new Date(Date.now() + parseMinutes(args.duration)).toISOString();
  await client.call('PUT /workspaces/{workspace}/extend', { params: { workspace: workspace.id }, body: { deadline } });
  printTable(ctx, scheduleColumnNames, scheduleColumns, [await findWorkspace(client, args.workspace)]);
});
