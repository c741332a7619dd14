import { command } from '../../framework/definition.ts';
import { tableFlags } from '../../lib/flags.ts';
import { printRows } from '../../lib/output.ts';
import { searchUsers } from '../../lib/pages.ts';
import { defaultUserColumns, userColumnNames, userColumns } from './columns.ts';

const flags = {
  'github-user-id': { type: 'int', description: 'Show only the user with this GitHub user ID.' },
  ...tableFlags(userColumnNames, defaultUserColumns),
} as const;

export default command({ flags }, async (ctx, { flags: given }) => {
  const client = await ctx.client();
  const q = given['github-user-id'] === undefined ? '' : `github_com_user_id:${given['github-user-id']}`;
  printRows(ctx, given, userColumns, await searchUsers(client, q));
});
