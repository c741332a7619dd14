import { parseDuration } from '@ropewalk/kit/duration';
import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';

const flags = {
  lifetime: {
    type: 'string',
    env: 'CODER_TOKEN_LIFETIME',
    description: 'Time until the token expires, such as 30d or 8h. Default: the setting of the server.',
  },
  name: { type: 'string', short: 'n', env: 'CODER_TOKEN_NAME', description: 'Name of the token.' },
  user: {
    type: 'string',
    short: 'u',
    env: 'CODER_TOKEN_USER',
    description: 'User who gets the token, by name or ID. Default: you.',
  },
} as const;

export default command({ flags }, async (ctx, { flags: given }) => {
  const client = await ctx.client();
  const { key } = await client.call('POST /users/{user}/keys/tokens', {
    params: { user: given.user || 'me' },
    body: {
      ...(given.lifetime ? { lifetime: Math.round(parseDuration(given.lifetime) * 1e6) } : {}),
      ...(given.name ? { token_name: given.name } : {}),
    },
  });
  print(ctx.io, key);
});
