import type { X509Certificate } from 'node:crypto';
import { AppError } from '@ropewalk/kit';
import { isTrusted } from './chain.ts';
import { openSignedMessage } from './cms.ts';
import { identityError } from './error.ts';

/** The names in certificates that sign attested documents. */
const SIGNER = /^(.+\.)?metadata\.azure\.(com|us|cn)$/i;

export interface AzureTrust {
  /** Trusted authorities. */
  roots: readonly X509Certificate[];
  /** Certificates between the authorities and the signer, in addition to those in the message. */
  intermediates: readonly X509Certificate[];
  /** Fetches the issuer of a certificate from the address in the certificate. */
  fetchIssuer(certificate: X509Certificate): Promise<X509Certificate | undefined>;
}

/** The machine's id from its attested document, a PKCS #7 message. Throws `unauthenticated`. */
export async function azureInstanceId(
  proof: { signature: string; encoding: string },
  trust: AzureTrust,
  now: Date,
): Promise<string> {
  if (proof.encoding !== 'pkcs7') throw identityError('its encoding is not pkcs7');
  let message: ReturnType<typeof openSignedMessage>;
  try {
    message = openSignedMessage(Buffer.from(proof.signature, 'base64'));
  } catch (err) {
    if (err instanceof AppError) throw identityError(`the attested document is invalid: ${err.message}`);
    throw err;
  }
  const { content, signer, certificates } = message;
  if (!namesOf(signer).some((name) => SIGNER.test(name)))
    throw identityError("the signer's certificate has an unexpected name");
  const pool = [...certificates, ...trust.intermediates];
  if (!isTrusted(signer, pool, trust.roots, now)) {
    const issuer = await trust.fetchIssuer(signer);
    if (!issuer || !isTrusted(signer, [...pool, issuer], trust.roots, now))
      throw identityError("the signer's certificate was not issued by a trusted authority");
  }
  const { vmId, timeStamp } = documentOf(content);
  if (typeof vmId !== 'string' || vmId === '') throw identityError('the document does not name a machine');
  const until = timeStamp?.expiresOn;
  const end = typeof until === 'string' ? Date.parse(until) : Number.NaN;
  if (Number.isNaN(end)) throw identityError('the document has no valid expiry time');
  if (end < now.getTime()) throw identityError('the document has expired');
  return vmId;
}

function documentOf(content: Buffer): { vmId?: unknown; timeStamp?: { expiresOn?: unknown } } {
  try {
    const value: unknown = JSON.parse(content.toString('utf8'));
    if (value !== null && typeof value === 'object') return value;
  } catch {
    // reported below
  }
  throw identityError('the document is not JSON');
}

function namesOf(certificate: X509Certificate): string[] {
  const common = certificate.subject.split('\n').filter((line) => line.startsWith('CN='));
  const others = (certificate.subjectAltName ?? '').split(', ').filter((name) => name.startsWith('DNS:'));
  return [...common.map((line) => line.slice(3)), ...others.map((name) => name.slice(4))];
}
