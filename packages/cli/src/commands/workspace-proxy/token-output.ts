import type { UpdateWorkspaceProxyResponse, WorkspaceProxy } from '@ropewalk/contract';
import type { Context } from '../../framework/context.ts';
import { print } from '../../framework/io.ts';
import { columnFlag, outputFlag } from '../../lib/flags.ts';
import { type Columns, printTable } from '../../lib/output.ts';
import { PROXY_COLUMNS, proxyColumns } from './columns.ts';

type WithToken = WorkspaceProxy & { token: string };
const columns: Columns<WithToken> = { ...proxyColumns, 'proxy token': ({ token }) => token };

/** The flags of the commands that print a new token. */
export const tokenFlags = {
  'only-token': { type: 'bool', description: 'Print only the token, for scripts.' },
  ...columnFlag([...PROXY_COLUMNS, 'proxy token'], ['name', 'url', 'proxy token']),
  ...outputFlag('text', 'json', 'table'),
} as const;

interface TokenValues {
  'only-token': boolean;
  column: string[];
  output: string;
}

/** Prints a proxy with its new token. The server returns the token only once. */
export function printToken(
  ctx: Context,
  flags: TokenValues,
  answer: UpdateWorkspaceProxyResponse,
  { done, url }: { done: string; url: string },
): void {
  const { proxy, proxy_token: token } = answer;
  if (flags['only-token']) print(ctx.io, token);
  else if (flags.output === 'json') print(ctx.io, JSON.stringify(answer, null, 2));
  else if (flags.output === 'table') printTable(ctx, flags.column, columns, [{ ...proxy, token }]);
  else
    print(
      ctx.io,
      [
        `${done} workspace proxy ${proxy.name}.`,
        'Save its token, which is not shown again:',
        '',
        `  ${token}`,
        '',
        'Where the proxy runs, set CODER_PROXY_SESSION_TOKEN to the token, and start it:',
        '',
        `  coder wsproxy server --primary-access-url ${url} --access-url https://...`,
      ].join('\n'),
    );
}
