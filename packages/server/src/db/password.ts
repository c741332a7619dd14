/**
 * Where the password of a connection comes from. It is looked up again for each new connection, so that a credential
 * that another program or a cloud renews needs no restart.
 */
import { readFile } from 'node:fs/promises';
import { AppError, errorText, type Logger, systemClock } from '@ropewalk/kit';
import { cloudPasswords, isCloud } from './cloud-token.ts';
import { DEFAULT_PORT, parseDatabaseUrl, tokenTarget } from './database-url.ts';

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
  const { hosts, user } = tokenTarget(url, 'awsiamrds');
  const [target, ...others] = hosts;
  if (!target || others.length > 0)
    throw new AppError(
      'invalid',
      '--postgres-auth awsiamrds needs --postgres-url with one host: a token of AWS is for one host. Name the endpoint of the cluster.',
    );
  const { host, port } = target;
  // loaded for those who use it
  const { Signer } = await import('@aws-sdk/rds-signer');
  const region =
    process.env['AWS_REGION'] ||
    process.env['AWS_DEFAULT_REGION'] ||
    /\.([a-z0-9-]+)\.rds\.amazonaws\.com(?:\.cn)?$/.exec(host)?.[1];
  const signer = new Signer({
    hostname: host,
    port,
    username: user,
    ...(region === undefined ? {} : { region }),
  });
  return () => signer.getAuthToken();
}

function passwordFile(url: string): (() => Promise<string>) | undefined {
  if (url === '') return undefined;
  const { hosts, passfile, user, database } = parseDatabaseUrl(url);
  if (passfile === undefined) return undefined;
  // the driver does not show which host asks. All are one database with one password
  const wanted = (hosts.length > 0 ? hosts : [{ host: 'localhost', port: DEFAULT_PORT }]).map(({ host, port }) => [
    host,
    String(port),
    database,
    user,
  ]);
  return async () => {
    const text = await readFile(passfile, 'utf8');
    for (const one of wanted) {
      const password = passwordIn(text, one);
      if (password !== undefined) return password;
    }
    throw new Error(`${passfile} has no line for ${wanted.map((one) => one.join(':')).join(' or ')}`);
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
