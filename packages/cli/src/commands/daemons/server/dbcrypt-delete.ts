import { command } from '../../../framework/definition.ts';
import { printDone } from '../../../framework/io.ts';
import { yesFlag } from '../../../lib/flags.ts';
import { confirm } from '../../../lib/prompt.ts';
import { databaseFlags, databaseOf } from './direct.ts';

export default command(
  {
    flags: { ...databaseFlags, ...yesFlag },
    help:
      'Deletes all encrypted secrets. Use it if their key is lost. People sign in at their identity provider again, ' +
      'connect their accounts again, and get new keys for Git.',
  },
  async (ctx, { flags: given }) => {
    await confirm(ctx, 'Delete all encrypted secrets in the database? They cannot be restored.', given.yes);
    const { deleteSecrets, onDatabase } = await import('@ropewalk/server');
    const count = await onDatabase(databaseOf(ctx, given, 'delete secrets'), deleteSecrets);
    printDone(ctx, `${count} accounts and keys with encrypted secrets have been deleted.`);
  },
);
