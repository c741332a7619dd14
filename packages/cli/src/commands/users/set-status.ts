import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { columnFlag } from '../../lib/flags.ts';
import { printTable } from '../../lib/output.ts';
import { confirm } from '../../lib/prompt.ts';
import { defaultUserColumns, userColumnNames, userColumns } from './columns.ts';

const flags = columnFlag(userColumnNames, defaultUserColumns);

/** A command that shows a user, asks, and sets the status. `verb` starts the question, and `now` is the new status. */
export function userStatusCommand(action: 'activate' | 'suspend', verb: string, now: string) {
  return command({ args: { user: { usage: 'username|user_id' } }, flags }, async (ctx, { args, flags: given }) => {
    const client = await ctx.client();
    const user = await client.call('GET /users/{user}', { params: { user: args.user } });
    printTable(ctx, given.column, userColumns, [user]);
    await confirm(ctx, `${verb} ${user.username}?`, !ctx.interactive);
    await client.call(`PUT /users/{user}/status/${action}`, { params: { user: user.id } });
    printDone(ctx, `\nThe user ${user.username} is now ${now}.`);
  });
}
