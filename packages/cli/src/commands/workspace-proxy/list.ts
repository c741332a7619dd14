import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { columnFlag, outputFlag } from '../../lib/flags.ts';
import { printRows } from '../../lib/output.ts';
import { PROXY_COLUMNS, proxyColumns } from './columns.ts';

const flags = {
  ...columnFlag(PROXY_COLUMNS, ['name', 'url', 'proxy status']),
  ...outputFlag('table', 'json', 'text'),
} as const;

const help =
  'The first one is the servers themselves. With --output text, errors and warnings of each proxy are listed.';

export default command({ flags, help }, async (ctx, { flags: given }) => {
  const { regions } = await (await ctx.client()).call('GET /workspaceproxies');
  if (given.output !== 'text') return printRows(ctx, given, proxyColumns, regions);
  for (const { name, path_app_url: url, status } of regions) {
    print(ctx.io, [name, url, status?.status ?? ''].filter((text) => text !== '').join('  '));
    for (const error of status?.report.errors ?? []) print(ctx.io, `  Error: ${error}`);
    for (const warning of status?.report.warnings ?? []) print(ctx.io, `  Warning: ${warning}`);
  }
});
