import { randomBytes } from 'node:crypto';
import { AppError } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import { print, printDone } from '../../framework/io.ts';
import { orgFlag } from '../../lib/flags.ts';
import { findOrganization } from '../../lib/organization.ts';
import { ask } from '../../lib/prompt.ts';

const LOGIN_TYPES = ['password', 'none', 'github', 'oidc'] as const;

const flags = {
  email: { type: 'string', short: 'e', description: 'Email address of the user.' },
  username: { type: 'string', short: 'u', description: 'Username of the user.' },
  'full-name': { type: 'string', short: 'n', description: 'Full name of the user.' },
  password: {
    type: 'string',
    short: 'p',
    description: 'Password of the user. Default: a generated password, which the command prints.',
  },
  'login-type': {
    type: 'string',
    values: LOGIN_TYPES,
    description: 'Login type of the user. With none, the user can only use API tokens. Default: password.',
  },
  ...orgFlag,
} as const;

export default command({ flags }, async (ctx, { flags: given }) => {
  const client = await ctx.client();
  const organization = await findOrganization(client, given.org);
  const username = given.username || (await ask(ctx, { text: 'Username', instead: 'set --username.' }));
  const email = given.email || (await ask(ctx, { text: 'Email', instead: 'set --email.' }));
  const type = (given['login-type'] || 'password') as (typeof LOGIN_TYPES)[number];
  if (type !== 'password' && given.password) {
    throw new AppError(
      'invalid',
      `--password requires --login-type password: users with the login type ${type} have no password.`,
    );
  }
  const generated = type === 'password' && given.password === '';
  const password = generated ? randomBytes(15).toString('base64url') : given.password;
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
  printDone(ctx, `The user ${username} has been created.`);
  if (generated) print(ctx.io, `Password (not shown again): ${password}`);
  print(ctx.io, `The user logs in with: coder login ${client.url}`);
});
