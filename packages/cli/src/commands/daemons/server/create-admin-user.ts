import { command } from '../../../framework/definition.ts';
import { print, printDone } from '../../../framework/io.ts';
import { ask } from '../../../lib/prompt.ts';
import { databaseFlags, databaseOf, newPassword } from './direct.ts';

const flags = {
  ...databaseFlags,
  username: { type: 'string', env: 'CODER_USERNAME', description: 'Username of the user.' },
  email: { type: 'string', env: 'CODER_EMAIL', description: 'Email address of the user.' },
  password: {
    type: 'string',
    env: 'CODER_PASSWORD',
    description: 'Password of the user. Default: asks for it, or reads the standard input.',
  },
  'raw-url': { type: 'bool', description: 'Print only the value.' },
  'ssh-keygen-algorithm': {
    type: 'string',
    env: 'CODER_SSH_KEYGEN_ALGORITHM',
    default: 'ed25519',
    values: ['ed25519', 'ecdsa', 'rsa4096'],
    description:
      "The algorithm of the user's Git SSH key. Has no effect: the server creates the key when it is first needed, with the algorithm of the server's option --ssh-keygen-algorithm.",
  },
} as const;

export default command(
  {
    flags,
    help:
      'Creates a user directly in the database. Use it if nobody can sign in. The user is an owner, and an ' +
      'administrator of every organization.',
  },
  async (ctx, { flags: given }) => {
    const username = given.username || (await ask(ctx, { text: 'Username', instead: 'set --username.' }));
    const email = given.email || (await ask(ctx, { text: 'Email', instead: 'set --email.' }));
    const password = given.password || (await newPassword(ctx));
    const { createAdminUser, onDatabase } = await import('@ropewalk/server');
    const id = await onDatabase({ ...databaseOf(ctx, given, 'create admin user'), migrate: true }, (direct) =>
      createAdminUser(direct, { username, email, password }),
    );
    if (given['raw-url']) print(ctx.io, id);
    else printDone(ctx, `The owner ${username} (${id}) has been created.`);
  },
);
