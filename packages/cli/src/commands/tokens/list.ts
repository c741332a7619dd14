import { command } from '../../framework/definition.ts';
import { note, print } from '../../framework/io.ts';
import { tableFlags } from '../../lib/flags.ts';
import { printRows } from '../../lib/output.ts';
import { type TokenColumn, type TokenRow, tokenColumns } from './columns.ts';

const names = Object.keys(tokenColumns) as TokenColumn[];

const flags = {
  all: { type: 'bool', short: 'a', description: 'Show the tokens of all users.' },
  'include-expired': { type: 'bool', description: 'Show expired tokens, too.' },
  ...tableFlags(
    names,
    names.filter((name) => name !== 'owner'),
  ),
} as const;

export default command({ flags }, async (ctx, { flags: given, isSet }) => {
  const client = await ctx.client();
  const tokens: TokenRow[] = await client.call('GET /users/{user}/keys/tokens', {
    params: { user: 'me' },
    query: {
      ...(given.all ? { include_all: true } : {}),
      ...(given['include-expired'] ? { include_expired: true } : {}),
    },
  });
  if (given.output === 'json') {
    print(ctx.io, JSON.stringify(tokens, null, 2));
    return;
  }
  if (tokens.length === 0) {
    note(ctx.io, 'No tokens found.');
    return;
  }
  const column = given.all && !isSet('column') ? [...given.column, 'owner'] : given.column;
  printRows(ctx, { ...given, column }, tokenColumns, tokens);
});
