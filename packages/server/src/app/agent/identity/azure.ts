import type { X509Certificate } from 'node:crypto';
import { AppError } from '@platform/kit';
import { isTrusted } from './chain.ts';
import { openSignedMessage } from './cms.ts';
import { refused } from './refused.ts';

/** Whom the certificates of attested documents name. */
const SIGNER = /^(.+\.)?metadata\.azure\.(com|us|cn)$/i;

export interface AzureTrust {
  /** Authorities that are believed. */
  roots: readonly X509Certificate[];
  /** Between those and the signer, beside what the message brings along. */
  intermediates: readonly X509Certificate[];
  /** Looks for the issuer of a certificate where the certificate says it is to be had. */
  fetchIssuer(certificate: X509Certificate): Promise<X509Certificate | undefined>;
}

/** The machine's id by its attested document, a PKCS #7 message. Throws `unauthenticated`. */
export async function azureInstanceId(
  proof: { signature: string; encoding: string },
  trust: AzureTrust,
  now: Date,
): Promise<string> {
  if (proof.encoding !== 'pkcs7') throw refused('its encoding is not pkcs7');
  let message: ReturnType<typeof openSignedMessage>;
  try {
    message = openSignedMessage(Buffer.from(proof.signature, 'base64'));
  } catch (err) {
    if (err instanceof AppError) throw refused(`the attested document is not taken: ${err.message}`);
    throw err;
  }
  const { content, signer, certificates } = message;
  if (!namesOf(signer).some((name) => SIGNER.test(name))) throw refused("the signer's certificate names somebody else");
  const pool = [...certificates, ...trust.intermediates];
  if (!isTrusted(signer, pool, trust.roots, now)) {
    const issuer = await trust.fetchIssuer(signer);
    if (!issuer || !isTrusted(signer, [...pool, issuer], trust.roots, now))
      throw refused("no authority that is believed stands behind the signer's certificate");
  }
  const { vmId, timeStamp } = documentOf(content);
  if (typeof vmId !== 'string' || vmId === '') throw refused('the document names no machine');
  const until = timeStamp?.expiresOn;
  const end = typeof until === 'string' ? Date.parse(until) : Number.NaN;
  if (Number.isNaN(end)) throw refused('the document does not say until when it is good');
  if (end < now.getTime()) throw refused('the document has expired');
  return vmId;
}

function documentOf(content: Buffer): { vmId?: unknown; timeStamp?: { expiresOn?: unknown } } {
  try {
    const value: unknown = JSON.parse(content.toString('utf8'));
    if (value !== null && typeof value === 'object') return value;
  } catch {
    // said below
  }
  throw refused('the document is not JSON');
}

function namesOf(certificate: X509Certificate): string[] {
  const common = certificate.subject.split('\n').filter((line) => line.startsWith('CN='));
  const others = (certificate.subjectAltName ?? '').split(', ').filter((name) => name.startsWith('DNS:'));
  return [...common.map((line) => line.slice(3)), ...others.map((name) => name.slice(4))];
}
