import { command } from '../../../framework/definition.ts';
import { print } from '../../../framework/io.ts';
import { bundledFlags, showBundledUrl } from './bundled.ts';

export default command(
  {
    flags: bundledFlags,
    help:
      'Prints a psql command for the bundled PostgreSQL of the config directory, with its password. The database ' +
      'runs only while a server or "coder server postgres-builtin-serve" runs. If you run this command as root, ' +
      'run the printed command as root, too.',
  },
  async (ctx, { flags }) => {
    const { bundledPostgresUrl } = await import('@ropewalk/server');
    print(ctx.io, showBundledUrl(bundledPostgresUrl(ctx.configDir), flags));
  },
);
