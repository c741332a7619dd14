// Programs in a container of a workspace: what a shell of the workspace runs to start them.
import { AppError } from './errors.ts';

export interface ContainerCommand {
  /** The name or the id of a running container. */
  container: string;
  /** Empty: the container's own user. */
  user?: string;
  /** Undefined or empty: the login shell of the user. */
  command?: string | undefined;
  env?: Readonly<Record<string, string>>;
  /** Whether it runs in a terminal. */
  tty: boolean;
}

/** What Docker accepts as a name, which is never an option of its command. */
const NAME = /^[a-zA-Z0-9][\w.-]*$/;
const USER = /^[\w.][\w.:@-]*$/;
const SHELL = 'exec "$(getent passwd "$(id -u)" 2>/dev/null | cut -d: -f7 | grep . || echo /bin/sh)" -l';

/** Returns a line for a POSIX shell. @throws AppError `invalid` for a container or a user that cannot exist */
export function containerCommand({ container, user = '', command, env = {}, tty }: ContainerCommand): string {
  if (!NAME.test(container)) throw new AppError('invalid', `Invalid container name ${JSON.stringify(container)}.`);
  if (user !== '' && !USER.test(user))
    throw new AppError('invalid', `Invalid user of a container ${JSON.stringify(user)}.`);
  const words = [
    'docker',
    'exec',
    '--interactive',
    ...(tty ? ['--tty'] : []),
    ...(user === '' ? [] : ['--user', user]),
    ...Object.entries(env).flatMap(([name, value]) => ['--env', `${name}=${value}`]),
    container,
    '/bin/sh',
    '-c',
    command || SHELL,
  ];
  return words.map(quoted).join(' ');
}

/** A word of a POSIX shell, or of fish, as it is. */
export const quoted = (word: string): string =>
  /^[\w@=:./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
