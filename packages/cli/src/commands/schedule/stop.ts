import { AppError } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import { printTable } from '../../lib/output.ts';
import { parseMinutes } from '../../lib/schedule.ts';
import { findWorkspace } from '../../lib/workspace.ts';
import { scheduleColumnNames, scheduleColumns } from './columns.ts';

export default command(
  {
    args: { workspace: {}, duration: { usage: 'duration|manual' } },
    examples: [
      { does: 'Stop the workspace 8 hours after each start', run: 'coder schedule stop dev 8h' },
      { does: 'Never stop the workspace automatically', run: 'coder schedule stop dev manual' },
    ],
  },
  async (ctx, { args }) => {
    const client = await ctx.client();
    const workspace = await findWorkspace(client, args.workspace);
    const ttl = args.duration === 'manual' ? undefined : parseMinutes(args.duration);
    if (ttl !== undefined && ttl < 60_000)
      throw new AppError('invalid', `Invalid duration "${args.duration}": use at least one minute.`);
    await client.call('PUT /workspaces/{workspace}/ttl', {
      params: { workspace: workspace.id },
      body: ttl === undefined ? {} : { ttl_ms: ttl },
    });
    printTable(ctx, scheduleColumnNames, scheduleColumns, [await findWorkspace(client, args.workspace)]);
  },
);
