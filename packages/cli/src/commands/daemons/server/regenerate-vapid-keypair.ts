import { command } from '../../../framework/definition.ts';
import { printDone } from '../../../framework/io.ts';
import { yesFlag } from '../../../lib/flags.ts';
import { confirm } from '../../../lib/prompt.ts';
import { databaseFlags, databaseOf } from './direct.ts';

export default command(
  {
    flags: { ...databaseFlags, ...yesFlag },
    help:
      'Replaces the key pair with which the server proves its identity to the push services of browsers. Use it ' +
      'if the key was leaked. All browsers lose their subscription to notifications. Restart the servers ' +
      'afterwards.',
  },
  async (ctx, { flags: given }) => {
    await confirm(ctx, 'Replace the key pair and end the subscriptions of all browsers?', given.yes);
    const { onDatabase, renewVapidKeys } = await import('@ropewalk/server');
    const count = await onDatabase(databaseOf(ctx, given, 'replace the key pair for web push'), renewVapidKeys);
    printDone(ctx, `The key pair has been replaced. Ended subscriptions: ${count}. Restart the servers.`);
  },
);
