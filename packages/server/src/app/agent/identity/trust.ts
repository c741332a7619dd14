import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { rootCertificates } from 'node:tls';
import { AppError, errorText } from '@ropewalk/kit';
import type { Services } from '../../context/context.ts';
import { certificatesOf } from './aws.ts';
import type { AzureTrust } from './azure.ts';
import type { PublishedKey } from './google.ts';

const FETCH_MS = 10_000;
const MAX_BYTES = 256 * 1024;
const KEYS_MS = 60 * 60_000;
/** The shortest time between two requests for Google's keys, in ms, however many unknown key names arrive. */
const KEYS_AGAIN_MS = 30_000;
const MAX_ISSUERS = 50;
/** The hosts from which issuers' certificates are fetched: anyone may send a certificate, which names the address. */
const ISSUER_HOSTS = /(^|\.)(microsoft\.com|digicert\.com)$/i;

/** The authorities that this server trusts for the identity of machines. */
export interface IdentityTrust {
  awsCertificates(): Promise<readonly X509Certificate[]>;
  azure(): Promise<AzureTrust>;
  googleKeys(kid: string): Promise<readonly PublishedKey[]>;
}

let publicRoots: readonly X509Certificate[] | undefined;

/** Parsed once: there are more than a hundred, and anyone may send a proof. */
function publicAuthorities(): readonly X509Certificate[] {
  publicRoots ??= rootCertificates.map((pem) => new X509Certificate(pem));
  return publicRoots;
}

export function createIdentityTrust({ config, log }: Services): IdentityTrust {
  const issuers = new Map<string, Promise<X509Certificate | undefined>>();
  let keys: { at: number; found: Promise<readonly PublishedKey[]> } | undefined;

  const fromFile = async (path: string, option: string): Promise<X509Certificate[]> => {
    if (path === '') return [];
    try {
      return certificatesOf(await readFile(path, 'utf8'));
    } catch (err) {
      throw new AppError('internal', `The certificates of --${option} cannot be read: ${errorText(err)}`);
    }
  };

  async function fetchKeys(): Promise<readonly PublishedKey[]> {
    const { keys: found } = JSON.parse((await get(config.googleInstanceIdentityKeysUrl)).toString('utf8')) as {
      keys?: unknown;
    };
    if (!Array.isArray(found)) throw new Error('the answer contains no keys');
    return found as PublishedKey[];
  }

  async function fetchIssuer(certificate: X509Certificate): Promise<X509Certificate | undefined> {
    const address = /^CA Issuers - URI:(\S+)$/m.exec(certificate.infoAccess ?? '')?.[1];
    if (!address || !URL.canParse(address) || !ISSUER_HOSTS.test(new URL(address).hostname)) return undefined;
    if (!issuers.has(address)) {
      if (issuers.size >= MAX_ISSUERS) issuers.clear();
      const found = get(address)
        .then((bytes) => new X509Certificate(bytes))
        .catch((err) => {
          issuers.delete(address);
          log.warn("could not fetch an issuer's certificate", { address, err: errorText(err) });
          return undefined;
        });
      issuers.set(address, found);
    }
    return issuers.get(address);
  }

  return {
    awsCertificates: () => fromFile(config.awsInstanceIdentityCertificates, 'aws-instance-identity-certificates'),
    async azure() {
      const own = await fromFile(config.azureInstanceIdentityCertificates, 'azure-instance-identity-certificates');
      const roots = own.length > 0 ? own : publicAuthorities();
      return { roots, intermediates: own, fetchIssuer };
    },
    async googleKeys(kid) {
      const age = keys ? performance.now() - keys.at : Number.POSITIVE_INFINITY;
      const known = keys && (await keys.found.catch(() => []));
      if (age > KEYS_MS || (age > KEYS_AGAIN_MS && !known?.some((key) => key.kid === kid))) {
        keys = { at: performance.now(), found: fetchKeys() };
      }
      try {
        return await keys!.found;
      } catch (err) {
        keys = undefined;
        throw new AppError('unavailable', `Could not fetch Google's public keys: ${errorText(err)}`);
      }
    },
  };
}

async function get(url: string): Promise<Buffer> {
  const answer = await fetch(url, { signal: AbortSignal.timeout(FETCH_MS), redirect: 'error' });
  if (!answer.ok || !answer.body) throw new Error(`${new URL(url).host} answered with status ${answer.status}`);
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of answer.body) {
    length += part.length;
    if (length > MAX_BYTES) throw new Error(`${new URL(url).host} sent more than ${MAX_BYTES} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts);
}
