import { ApiError } from '@ropewalk/client';
import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';

export default command({ args: { token: { usage: 'name|id|token' } } }, async (ctx, { args }) => {
  const client = await ctx.client();
  // send only the ID of a whole token, and never its secret
  const wanted = args.token.replace(/^(.{10})-.{22}$/, '$1');
  const id = await client
    .call('GET /users/{user}/keys/tokens/{keyname}', { params: { user: 'me', keyname: wanted } })
    .then(
      (key) => key.id,
      (err) => {
        if (err instanceof ApiError && err.status < 500 && err.status !== 401) return wanted;
        throw err;
      },
    );
  await client.call('DELETE /users/{user}/keys/{keyid}', { params: { user: 'me', keyid: id } });
  print(ctx.io, 'The token has been removed.');
});
