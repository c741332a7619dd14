import { AppError } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import { print, printDone } from '../../framework/io.ts';
import { columnFlag, outputFlag } from '../../lib/flags.ts';
import { printTable } from '../../lib/output.ts';
import { PROXY_COLUMNS, proxyColumns } from './columns.ts';
import { findProxy } from './find.ts';

const flags = {
  name: { type: 'string', description: 'New name of the proxy.' },
  'display-name': { type: 'string', description: 'Name to display instead of the name.' },
  icon: { type: 'string', description: 'Path or URL of the icon.' },
  ...columnFlag(PROXY_COLUMNS, ['name', 'url']),
  ...outputFlag('text', 'json', 'table'),
} as const;

const help = 'The servers themselves are the proxy "primary", whose display name and icon can be changed.';

export default command({ args: { proxy: { usage: 'name|id' } }, flags, help }, async (ctx, { args, flags: given }) => {
  const client = await ctx.client();
  const { name, 'display-name': displayName, icon } = given;
  if (!name && !displayName && !icon)
    throw new AppError('invalid', 'Nothing to change: set --name, --display-name or --icon.');
  const { id } = await findProxy(client, args.proxy);
  const { proxy } = await client.call('PATCH /workspaceproxies/{workspaceproxy}', {
    params: { workspaceproxy: id },
    body: {
      ...(name ? { name } : {}),
      ...(displayName ? { display_name: displayName } : {}),
      ...(icon ? { icon } : {}),
    },
  });
  if (given.output === 'json') print(ctx.io, JSON.stringify(proxy, null, 2));
  else if (given.output === 'table') printTable(ctx, given.column, proxyColumns, [proxy]);
  else printDone(ctx, `Changed workspace proxy ${proxy.name}.`);
});
