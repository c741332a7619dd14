import { AppError } from '@platform/kit/errors';
import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { table } from '../../lib/output.ts';
import { parseAutostart } from '../../lib/schedule.ts';
import { scheduleColumnNames, scheduleColumns } from '../../lib/schedule-table.ts';
import { findWorkspace } from '../../lib/workspace.ts';

export default command(
  {
    args: '<workspace> <start-time|manual> [day-of-week] [location]',
    help: 'Such as: coder schedule start dev 9:30AM Mon-Fri Europe/Dublin. `manual` takes the schedule away.',
  },
  async (ctx, { args: [name, ...words] }) => {
    const client = await ctx.client();
    const workspace = await findWorkspace(client, name!);
    const manual = words[0] === 'manual';
    if (manual && words.length > 1) throw new AppError('invalid', '`manual` stands alone.');
    await client.call('PUT /workspaces/{workspace}/autostart', {
      params: { workspace: workspace.id },
      body: manual ? {} : { schedule: parseAutostart(words) },
    });
    print(ctx.io, table(scheduleColumnNames, scheduleColumns, [await findWorkspace(client, name!)]));
  },
);
