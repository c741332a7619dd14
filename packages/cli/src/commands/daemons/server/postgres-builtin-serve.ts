import { createLogger } from '@ropewalk/kit';
import { command } from '../../../framework/definition.ts';
import { print } from '../../../framework/io.ts';
import { onEverySignal } from '../signals.ts';
import { bundledFlags, showBundledUrl } from './bundled.ts';

export default command(
  {
    flags: bundledFlags,
    help:
      'Runs the bundled PostgreSQL of the config directory without a server, until Ctrl+C, for example to restore a backup. ' +
      'Prints a psql command for it, with its password.',
  },
  async (ctx, { flags }) => {
    const { startBundledPostgres } = await import('@ropewalk/server');
    const stopped = new Promise<void>((resolve) => {
      if (ctx.signal.aborted) resolve();
      ctx.signal.addEventListener('abort', () => resolve());
      onEverySignal(['SIGTERM', 'SIGHUP'], () => resolve());
    });
    const database = await startBundledPostgres(ctx.configDir, createLogger({ level: 'warn' }));
    try {
      print(ctx.io, showBundledUrl(database.url, flags));
      await stopped;
    } finally {
      await database.stop();
    }
  },
);
