import { command } from '../../../framework/definition.ts';
import { printDone } from '../../../framework/io.ts';
import { databaseFlags, databaseOf } from './direct.ts';

export default command(
  {
    flags: databaseFlags,
    help:
      "Brings the database to this program's schema and ends. A server does the same at its start. Run it before an " +
      'update of several servers, so that none of them waits for the others. Servers of older versions then cannot ' +
      'start again.',
  },
  async (ctx, { flags: given }) => {
    const { onDatabase } = await import('@ropewalk/server');
    await onDatabase({ ...databaseOf(ctx, given, 'migrate'), migrate: true }, async () => {});
    printDone(ctx, 'The database has the schema of this version.');
  },
);
