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
  scope: {
    type: 'string[]',
    description:
      'Scopes of the token, separated by commas, such as workspace:read. It may do only what they permit. Default: everything that the user may do.',
  },
  allow: {
    type: 'string[]',
    description:
      'Objects that the token may use, separated by commas, as type:id or type:*, such as workspace:<uuid>. Default: all.',
  },
} as const;

export default command({ flags }, async (ctx, { flags: given }) => {
  const client = await ctx.client();
  const { key } = await client.call('POST /users/{user}/keys/tokens', {
    params: { user: given.user || 'me' },
    body: {
      ...(given.lifetime ? { lifetime: Math.round(parseDuration(given.lifetime) * 1e6) } : {}),
      ...(given.name ? { token_name: given.name } : {}),
      ...(given.scope.length > 0 ? { scopes: given.scope } : {}),
      ...(given.allow.length > 0 ? { allow_list: given.allow } : {}),
    },
  });
  print(ctx.io, key);
});
