import { randomBytes } from 'node:crypto';
import { AppError } from '@platform/kit/errors';
import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { findOrganization, orgFlag } from '../../lib/organization.ts';
import { ask } from '../../lib/prompt.ts';

const LOGIN_TYPES = ['password', 'none', 'github', 'oidc'] as const;

const flags = {
  email: { type: 'string', short: 'e', description: 'Their e-mail address.' },
  username: { type: 'string', short: 'u', description: 'Their user name.' },
  'full-name': { type: 'string', short: 'n', description: 'Their full name.' },
  password: { type: 'string', short: 'p', description: 'Their password. Default: one is made up and printed.' },
  'login-type': {
    type: 'string',
    values: LOGIN_TYPES,
    description: 'How they log in; `none` for a user of tokens only. Default: password.',
  },
  ...orgFlag,
} as const;

export default command({ flags }, async (ctx, { flags: given }) => {
  const client = await ctx.client();
  const organization = await findOrganization(client, given.org);
  const username = given.username || (await ask(ctx, { text: 'User name', instead: 'give --username' }));
  const email = given.email || (await ask(ctx, { text: 'E-mail', instead: 'give --email' }));
  const type = (given['login-type'] || 'password') as (typeof LOGIN_TYPES)[number];
  if (type !== 'password' && given.password) {
    throw new AppError('invalid', `A user who logs in by ${type} has no password.`);
  }
  const made = type === 'password' && given.password === '';
  const password = made ? randomBytes(15).toString('base64url') : given.password;
  await client.call('POST /users', {
    body: {
      username,
      email,
      login_type: type,
      organization_ids: [organization.id],
      ...(given['full-name'] ? { name: given['full-name'] } : {}),
      ...(password ? { password } : {}),
    },
  });
  print(ctx.io, `The user ${username} has been created.`);
  if (made) print(ctx.io, `Their password, which is not shown again: ${password}`);
  print(ctx.io, `They log in with: coder login ${client.url}`);
});
