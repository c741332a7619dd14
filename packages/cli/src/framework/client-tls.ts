import { readFileSync } from 'node:fs';
import type { ClientTls } from '@ropewalk/client';
import { AppError, errorText } from '@ropewalk/kit/errors';
import type { GlobalFlags } from './globals.ts';
import type { ValuesOf } from './types.ts';

const CERT = 'client-tls-cert-file';
const KEY = 'client-tls-key-file';
const CA = 'client-tls-ca-file';

/**
 * The TLS options of `--client-tls-*`. Undefined without any of these flags: most commands never load TLS.
 * @throws AppError `invalid` if a file cannot be used, or the certificate has no key
 */
export async function clientTls(
  globals: Pick<ValuesOf<GlobalFlags>, typeof CERT | typeof KEY | typeof CA>,
): Promise<ClientTls | undefined> {
  if (!globals[CERT] && !globals[KEY] && !globals[CA]) return undefined;
  if (!globals[CERT] !== !globals[KEY])
    throw new AppError('invalid', `--${CERT} and --${KEY} need each other: set both.`);
  const { createSecureContext } = await import('node:tls');
  const { X509Certificate } = await import('node:crypto');
  const read = (name: typeof CERT | typeof KEY | typeof CA): string => {
    try {
      return readFileSync(globals[name], 'utf8');
    } catch (err) {
      throw new AppError('invalid', `Could not read --${name}: ${errorText(err)}`, { cause: err });
    }
  };
  const tls: ClientTls = {};
  if (globals[CA]) {
    tls.ca = read(CA);
    try {
      new X509Certificate(tls.ca);
    } catch (err) {
      throw new AppError('invalid', `--${CA} ${JSON.stringify(globals[CA])} has no certificate in PEM format.`, {
        cause: err,
      });
    }
  }
  if (globals[CERT]) {
    Object.assign(tls, { cert: read(CERT), key: read(KEY) });
    try {
      createSecureContext(tls);
    } catch (err) {
      const files = `--${CERT} ${JSON.stringify(globals[CERT])} with --${KEY} ${JSON.stringify(globals[KEY])}`;
      throw new AppError('invalid', `Cannot use ${files}: ${errorText(err)}`, { cause: err });
    }
  }
  return tls;
}
