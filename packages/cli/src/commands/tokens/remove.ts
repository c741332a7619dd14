import { ApiError } from '@ropewalk/client';
import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { findToken } from './find.ts';

const flags = {
  delete: { type: 'bool', description: 'Delete the token, so that lists of expired tokens do not show it.' },
} as const;

export default command(
  { args: { token: { usage: 'name|id|token' } }, flags },
  async (ctx, { args, flags: { delete: remove } }) => {
    const client = await ctx.client();
    const params = { user: 'me', keyid: (await findToken(client, args.token)).id };
    const expired =
      !remove &&
      (await client.call('PUT /users/{user}/keys/{keyid}/expire', { params }).then(
        () => true,
        (err) => {
          // servers of before 2.32 only delete
          if (err instanceof ApiError && (err.status === 404 || err.status === 405)) return false;
          throw err;
        },
      ));
    if (!expired) await client.call('DELETE /users/{user}/keys/{keyid}', { params });
    print(ctx.io, expired ? 'The token has expired.' : 'The token has been deleted.');
  },
);
