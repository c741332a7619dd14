import { command } from '../../../framework/definition.ts';
import { printDone } from '../../../framework/io.ts';
import { databaseFlags, databaseOf } from './direct.ts';

export default command(
  {
    flags: databaseFlags,
    help:
      'Updates the database schema and exits. A server does the same when it starts. Run it before an update of ' +
      'several servers, so that no server waits for another. Servers of older versions cannot start afterwards.',
  },
  async (ctx, { flags: given }) => {
    const { onDatabase } = await import('@ropewalk/server');
    await onDatabase({ ...databaseOf(ctx, given, 'migrate'), migrate: true }, async () => {});
    printDone(ctx, 'The database has the schema of this version.');
  },
);
