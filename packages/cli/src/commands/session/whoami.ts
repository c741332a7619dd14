import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';

export default command({}, async (ctx) => {
  const client = await ctx.client();
  const user = await client.call('GET /users/{user}', { params: { user: 'me' } });
  print(ctx.io, `You are ${user.username} (${user.email}) at ${client.url}.`);
});
