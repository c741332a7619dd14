import { text as textOf } from 'node:stream/consumers';
import { createLogger } from '@ropewalk/kit';
import { AppError } from '@ropewalk/kit/errors';
import { POSTGRES_AUTH } from '@ropewalk/rules/postgres-auth';
import type { Context } from '../../../framework/context.ts';
import { note } from '../../../framework/io.ts';
import { ask } from '../../../lib/prompt.ts';

/** The flags of commands that change the database without a server. */
export const databaseFlags = {
  'postgres-url': {
    type: 'string',
    env: 'CODER_PG_CONNECTION_URL',
    description: 'The URL of the PostgreSQL database. Default: the bundled database of the config directory.',
  },
  'postgres-connection-auth': {
    type: 'string',
    env: 'CODER_PG_CONNECTION_AUTH',
    default: 'password',
    ...POSTGRES_AUTH,
  },
} as const;

/** The options of a run on the database. Warnings and errors go to standard error. */
export const databaseOf = (
  ctx: Context,
  flags: { 'postgres-url': string; 'postgres-connection-auth': string },
  task: string,
) => ({
  postgresUrl: flags['postgres-url'],
  postgresAuth: flags['postgres-connection-auth'],
  configDir: ctx.configDir,
  task,
  log: createLogger({ level: 'warn' }),
});

/** A password that the person types twice, or the first line of the standard input. */
export async function newPassword(ctx: Context): Promise<string> {
  if (!ctx.interactive) {
    const [line = ''] = (await textOf(ctx.io.stdin)).split(/\r?\n/);
    if (line !== '') return line;
    throw new AppError('invalid', 'No password was given. Pass it on the standard input.');
  }
  for (;;) {
    const password = await ask(ctx, { text: 'New password', secret: true });
    if (password === (await ask(ctx, { text: 'Confirm password', secret: true }))) return password;
    note(ctx.io, 'The passwords differ.');
  }
}
