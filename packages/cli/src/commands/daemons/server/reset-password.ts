import { command } from '../../../framework/definition.ts';
import { printDone } from '../../../framework/io.ts';
import { databaseFlags, databaseOf, newPassword } from './direct.ts';

export default command(
  {
    args: { username: {} },
    flags: databaseFlags,
    help:
      'Sets the password of a user directly in the database. Use it if nobody can sign in. The user is signed out ' +
      'everywhere. Asks for the password, or reads the first line of the standard input. A user who signs in with an ' +
      'identity provider signs in with the password from now on.',
    examples: [{ run: 'coder reset-password alice', does: 'Set a new password for alice' }],
  },
  async (ctx, { args, flags }) => {
    const password = await newPassword(ctx);
    const { onDatabase, resetPassword } = await import('@ropewalk/server');
    const before = await onDatabase(databaseOf(ctx, flags, 'reset password'), (direct) =>
      resetPassword(direct, args.username, password),
    );
    printDone(ctx, `The password of ${args.username} has been set.`);
    if (before !== 'password') printDone(ctx, `${args.username} signs in with it instead of "${before}" now.`);
  },
);
