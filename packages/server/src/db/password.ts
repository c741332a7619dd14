/**
 * Where the password of a connection comes from. It is looked up again for each new connection, so that a credential
 * that another program or a cloud renews needs no restart.
 */
import { readFile } from 'node:fs/promises';
import { AppError, errorText, type Logger, systemClock } from '@ropewalk/kit';
import { cloudPasswords, isCloud } from './cloud-token.ts';

const DEFAULT_PORT = '5432';

/**
 * Returns the source of the password, or nothing if the URL has it: a token of the cloud that `auth` names, or the file
 * that the URL's `passfile` names. A source does not fail: it logs why it has no password, and the database then rejects
 * the connection.
 * @throws AppError `invalid` if the cloud's authentication cannot apply to the URL
 */
export async function passwordSource(
  url: string,
  auth: string,
  log: Logger,
): Promise<(() => Promise<string>) | undefined> {
  const source = await sourceOf(url, auth);
  if (!source) return undefined;
  return () =>
    source().catch((err: unknown) => {
      log.warn('could not get a password for the database', { err: errorText(err) });
      return '';
    });
}

async function sourceOf(url: string, auth: string): Promise<(() => Promise<string>) | undefined> {
  if (auth === 'awsiamrds') return awsToken(url);
  return isCloud(auth) ? cloudPasswords(auth, url, systemClock) : passwordFile(url);
}

async function awsToken(url: string): Promise<() => Promise<string>> {
  const { hostname, port, username } = URL.canParse(url) ? new URL(url) : { hostname: '', port: '', username: '' };
  if (hostname === '' || username === '') {
    throw new AppError(
      'invalid',
      '--postgres-auth awsiamrds needs --postgres-url with the host and the user of the database, without a password.',
    );
  }
  // loaded for those who use it
  const { Signer } = await import('@aws-sdk/rds-signer');
  const region =
    process.env['AWS_REGION'] ||
    process.env['AWS_DEFAULT_REGION'] ||
    /\.([a-z0-9-]+)\.rds\.amazonaws\.com(?:\.cn)?$/.exec(hostname)?.[1];
  const signer = new Signer({
    hostname,
    port: Number(port || DEFAULT_PORT),
    username: decodeURIComponent(username),
    ...(region === undefined ? {} : { region }),
  });
  return () => signer.getAuthToken();
}

function passwordFile(url: string): (() => Promise<string>) | undefined {
  const target = URL.canParse(url) ? new URL(url) : undefined;
  const path = target?.searchParams.get('passfile');
  if (!target || !path) return undefined;
  const wanted = [target.hostname, target.port || DEFAULT_PORT, target.pathname.slice(1), target.username].map(
    decodeURIComponent,
  );
  return async () => {
    const password = passwordIn(await readFile(path, 'utf8'), wanted);
    if (password === undefined) throw new Error(`${path} has no line for ${wanted.join(':')}`);
    return password;
  };
}

/** Finds a password in a file of libpq's form: lines of `host:port:database:user:password`, with `*` for any. */
export function passwordIn(text: string, wanted: readonly string[]): string | undefined {
  for (const line of text.split(/\r?\n/)) {
    if (line.startsWith('#')) continue;
    const fields = [...line.matchAll(/((?:\\.|[^\\:])*)(?::|$)/g)].map(([, field]) =>
      field!.replaceAll(/\\(.)/g, '$1'),
    );
    if (fields.length > wanted.length && wanted.every((one, at) => fields[at] === '*' || fields[at] === one)) {
      return fields[wanted.length];
    }
  }
  return undefined;
}
