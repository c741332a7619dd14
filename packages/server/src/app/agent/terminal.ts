import { AppError } from '@ropewalk/kit';
import { containerCommand } from '@ropewalk/kit/container-command';
import type { Ctx } from '../context/context.ts';
import { isUuid } from '../values/ids.ts';

/** The caller's choices for a terminal, under upstream's names. */
export interface TerminalQuery {
  reconnect?: string;
  width?: number;
  height?: number;
  command?: string;
  container?: string;
  container_user?: string;
  no_wait?: boolean;
}

/** The request for this user's terminal on the agent. Throws `invalid`. */
export function terminalRequest(ctx: Ctx, query: TerminalQuery): { service: 'pty'; [field: string]: unknown } {
  const { reconnect = '', width, height, command = '', container, container_user: user, no_wait: noWait } = query;
  if (!isUuid(reconnect)) {
    throw new AppError('invalid', 'Query param "reconnect" must be a valid UUID.', {
      validations: [{ field: 'reconnect', detail: `${JSON.stringify(reconnect)} is not a UUID` }],
    });
  }
  return {
    service: 'pty',
    id: reconnect,
    // keeps the terminals of different users apart
    user: ctx.actor.kind === 'user' ? ctx.actor.id : '',
    // every agent can run it, earlier versions too
    command: container ? containerCommand({ container, user: user ?? '', command, tty: true }) : command,
    ...(width ? { width } : {}),
    ...(height ? { height } : {}),
    wait: !noWait,
  };
}
