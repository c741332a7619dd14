import type { APIKey } from '@ropewalk/contract';
import { command } from '../../framework/definition.ts';
import { note, print } from '../../framework/io.ts';
import { tableFlags } from '../../lib/flags.ts';
import { type Columns, printRows } from '../../lib/output.ts';

type Row = APIKey & { username?: string };

const columns = {
  id: (one) => one.id,
  name: (one) => one.token_name,
  scope: (one) => one.scope,
  'last used': (one) => (one.last_used.startsWith('0001-') ? 'never' : one.last_used),
  'expires at': (one) => one.expires_at,
  'created at': (one) => one.created_at,
  owner: (one) => one.username ?? one.user_id,
} satisfies Columns<Row>;

const flags = {
  all: { type: 'bool', short: 'a', description: 'Show the tokens of all users.' },
  ...tableFlags(Object.keys(columns) as (keyof typeof columns)[], [
    'id',
    'name',
    'last used',
    'expires at',
    'created at',
  ]),
} as const;

export default command({ flags }, async (ctx, { flags: given, isSet }) => {
  const client = await ctx.client();
  const { status, text } = await client.raw('GET', `/users/me/keys/tokens${given.all ? '?include_all=true' : ''}`);
  const tokens: Row[] =
    status === 200
      ? (JSON.parse(text) as Row[])
      : await client.call('GET /users/{user}/keys/tokens', { params: { user: 'me' } });
  if (given.output === 'json') {
    print(ctx.io, JSON.stringify(tokens, null, 2));
    return;
  }
  if (tokens.length === 0) {
    note(ctx.io, 'No tokens found.');
    return;
  }
  const column = given.all && !isSet('column') ? [...given.column, 'owner'] : given.column;
  printRows(ctx, { ...given, column }, columns, tokens);
});
