/**
 * The URL of a database in libpq's form. The driver alone does not read several hosts, IPv6 addresses and folders of Unix
 * sockets.
 */
import { AppError } from '@ropewalk/kit';

export const DEFAULT_PORT = 5432;

export interface DatabaseHost {
  host: string;
  port: number;
}

export interface DatabaseUrl {
  /** In the order in which connections try them. Empty: the driver's default, or `socketDir`. */
  hosts: DatabaseHost[];
  /** The folder of PostgreSQL's Unix socket. */
  socketDir: string | undefined;
  user: string;
  database: string;
  /** A file of libpq's form that has the password. */
  passfile: string | undefined;
  /** Which of the hosts a connection accepts, in the driver's words. */
  sessions: 'primary' | 'read-only' | 'standby' | 'prefer-standby' | undefined;
  /** What remains for the driver: user, password, database and its parameters, with one host. */
  rest: URL;
}

/**
 * The driver's check of `read-write` accepts standbys of PostgreSQL 14 and later, whose sessions are not read-only by
 * default. A primary is what it means.
 */
const SESSIONS = {
  any: undefined,
  'read-write': 'primary',
  primary: 'primary',
  'read-only': 'read-only',
  standby: 'standby',
  'prefer-standby': 'prefer-standby',
} as const;

const HOSTS = /^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)([^/?#]*)/i;

/**
 * Parses the URL of a database. With several hosts, connections go to the primary among them unless the URL names other
 * sessions: a server needs writes.
 * @throws AppError `invalid`, without the password
 */
export function parseDatabaseUrl(text: string): DatabaseUrl {
  const [head, scheme, authority] = HOSTS.exec(text) ?? [];
  if (head === undefined) throw invalid('It begins with postgres:// or postgresql://.');
  // the hosts are passed apart from it
  const rest = parsed(`${scheme}localhost${text.slice(head.length)}`);
  const take = (name: string) => {
    const value = rest.searchParams.get(name) ?? undefined;
    rest.searchParams.delete(name);
    return value || undefined;
  };
  // libpq reads both forms: the hosts of the authority, or ?host=…&port=…
  const named = take('host');
  const ports = take('port')?.split(',') ?? [];
  const attributes = take('target_session_attrs');
  const passfile = take('passfile');
  const socketDir = named?.startsWith('/') ? named : undefined;
  const texts = socketDir ? [] : (named ?? authority!).split(',').filter((one) => one !== '');
  const hosts = texts.map((one, at) => hostOf(one, ports[at] ?? ports[0]));
  if (attributes !== undefined && !Object.hasOwn(SESSIONS, attributes))
    throw invalid(
      `target_session_attrs is one of ${Object.keys(SESSIONS).join(', ')}, not ${JSON.stringify(attributes)}.`,
    );
  const [first] = hosts;
  if (first) rest.port = String(first.port);
  return {
    hosts,
    socketDir,
    user: decodeURIComponent(rest.username),
    database: decodeURIComponent(rest.pathname.slice(1)),
    passfile,
    sessions: SESSIONS[(attributes ?? (hosts.length > 1 ? 'read-write' : 'any')) as keyof typeof SESSIONS],
    rest,
  };
}

/**
 * The URL of a database into which a cloud's token signs in.
 * @throws AppError `invalid` if the URL lacks the host or the user
 */
export function tokenTarget(url: string, auth: string): DatabaseUrl {
  const target = url === '' ? undefined : parseDatabaseUrl(url);
  if (target && target.user !== '' && (target.hosts.length > 0 || target.socketDir)) return target;
  throw new AppError(
    'invalid',
    `--postgres-auth ${auth} needs --postgres-url with the host and the user of the database, without a password.`,
  );
}

/** `host`, `host:port`, `[address]` or `[address]:port`. */
function hostOf(text: string, port: string | undefined): DatabaseHost {
  const [, address, name, own] = /^(?:\[([^\]]+)\]|([^:[\]]+))(?::(\d*))?$/.exec(text) ?? [];
  const host = address ?? name;
  // a password with a slash ends up here: the text must not be in the message
  if (host === undefined) throw invalid('It names a host as NAME, NAME:PORT or [ADDRESS]:PORT.');
  const number = Number(own || port || DEFAULT_PORT);
  if (!Number.isInteger(number) || number < 1 || number > 65_535)
    throw invalid(`The port of ${JSON.stringify(host)} is a number from 1 to 65535.`);
  return { host: decodeURIComponent(host), port: number };
}

function parsed(text: string): URL {
  try {
    return new URL(text);
  } catch {
    throw invalid('Characters such as @, / and # in the user or the password are written as %40, %2F and %23.');
  }
}

function invalid(why: string): AppError {
  return new AppError(
    'invalid',
    `The URL of the database cannot be read. ${why} Example: postgres://user:password@host:5432/database`,
  );
}
