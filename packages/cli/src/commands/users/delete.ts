import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';

export default command({ args: { user: { usage: 'username|user_id' } } }, async (ctx, { args }) => {
  const client = await ctx.client();
  const user = await client.call('GET /users/{user}', { params: { user: args.user } });
  await client.call('DELETE /users/{user}', { params: { user: user.id } });
  printDone(ctx, `The user ${user.username} has been deleted.`);
});
