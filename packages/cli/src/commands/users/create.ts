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
  'service-account': {
    type: 'bool',
    description: 'Create a service account: it has no email address, and nobody signs in to it.',
  },
  ...orgFlag,
} as const;

const FOR_PEOPLE = ['email', 'password', 'login-type'] as const;

export default command({ flags }, async (ctx, { flags: given }) => {
  const service = given['service-account'];
  const person = FOR_PEOPLE.find((name) => given[name]);
  if (service && person) {
    throw new AppError('invalid', `--${person} cannot be used with --service-account: nobody signs in to the account.`);
  }
  const client = await ctx.client();
  const organization = await findOrganization(client, given.org);
  const username = given.username || (await ask(ctx, { text: 'Username', instead: 'set --username.' }));
  const email = service ? '' : given.email || (await ask(ctx, { text: 'Email', instead: 'set --email.' }));
  const type = service ? 'none' : ((given['login-type'] || 'password') as (typeof LOGIN_TYPES)[number]);
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
      ...(service ? { service_account: true } : { email }),
      login_type: type,
      organization_ids: [organization.id],
      ...(given['full-name'] ? { name: given['full-name'] } : {}),
      ...(password ? { password } : {}),
    },
  });
  if (service) {
    printDone(ctx, `The service account ${username} has been created.`);
    print(ctx.io, `Make a token for it with: coder tokens create --user ${username}`);
    return;
  }
  printDone(ctx, `The user ${username} has been created.`);
  if (generated) print(ctx.io, `Password (not shown again): ${password}`);
  print(ctx.io, `The user logs in with: coder login ${client.url}`);
});
