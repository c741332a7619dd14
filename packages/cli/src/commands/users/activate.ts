import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { table } from '../../lib/output.ts';
import { confirm } from '../../lib/prompt.ts';
import { defaultUserColumns, userColumnNames, userColumns } from '../../lib/user.ts';

const flags = {
  column: {
    type: 'string[]',
    short: 'c',
    default: defaultUserColumns.join(','),
    description: `Columns of the table: ${userColumnNames.join(', ')}.`,
  },
} as const;

export default command({ args: '<username|user_id>', flags }, async (ctx, { args, flags: given }) => {
  const client = await ctx.client();
  const user = await client.call('GET /users/{user}', { params: { user: args[0]! } });
  print(ctx.io, table(given.column, userColumns, [user]));
  await confirm(ctx, `Activate ${user.username}?`, !ctx.interactive);
  await client.call('PUT /users/{user}/status/activate', { params: { user: user.id } });
  print(ctx.io, `\nThe user ${user.username} is now active.`);
});
