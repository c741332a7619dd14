import { createHash, type KeyObject, verify, X509Certificate } from 'node:crypto';
import { AppError } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import { children, type Der, oid, readDer, TAG } from './der.ts';

const SIGNED_DATA = '1.2.840.113549.1.7.2';
const CONTENT_TYPE = '1.2.840.113549.1.9.3';
const MESSAGE_DIGEST = '1.2.840.113549.1.9.4';
/** The accepted digests. Weaker ones are rejected. */
const DIGESTS: Record<string, string> = {
  '2.16.840.1.101.3.4.2.1': 'sha256',
  '2.16.840.1.101.3.4.2.2': 'sha384',
  '2.16.840.1.101.3.4.2.3': 'sha512',
};
/** RSA with PKCS #1 v1.5 padding: alone, or combined with the digest. */
const RSA: readonly string[] = [
  '1.2.840.113549.1.1.1',
  '1.2.840.113549.1.1.11',
  '1.2.840.113549.1.1.12',
  '1.2.840.113549.1.1.13',
];
/** The largest message, in bytes. Attested documents have a few kilobytes. */
const MAX_BYTES = 128 * 1024;
const MAX_CERTIFICATES = 10;
/** Longer keys and exponents make a check take milliseconds instead of microseconds. No authority uses them. */
const MAX_RSA_BITS = 4096;
const MAX_RSA_EXPONENT = 65_537n;
const CURVES: readonly unknown[] = ['prime256v1', 'secp384r1', 'secp521r1'];

const bad = (why: string) => new AppError('invalid', `The signed message is not valid: ${why}.`);

export interface SignedMessage {
  /** The signed content. */
  content: Buffer;
  signer: X509Certificate;
  /** All certificates of the message, including the signer's. */
  certificates: X509Certificate[];
}

/**
 * Opens a CMS (PKCS #7) message that contains its content and verifies the signature with the certificate in it. The
 * caller must check whether that certificate is trusted. Throws `invalid`.
 */
export function openSignedMessage(message: Buffer): SignedMessage {
  if (message.length > MAX_BYTES) throw bad('it is too long');
  const outer = children(sequence(readDer(message).element));
  if (oid(outer[0]) !== SIGNED_DATA) throw bad('it is not signed data');
  const parts = children(sequence(children(outer[1] ?? nothing())[0]));
  const [contentType, wrapped] = children(sequence(parts[2]));
  const octets = wrapped && children(wrapped)[0];
  if (octets?.tag !== TAG.octets) throw bad('it has no content');
  const content = octets.content;
  const certificates = parts
    .filter(({ tag }) => tag === TAG.first)
    .flatMap(children)
    .slice(0, MAX_CERTIFICATES)
    .map(({ whole }) => certificate(whole));
  const signers = children(parts.at(-1) ?? nothing());
  if (parts.at(-1)?.tag !== TAG.set || signers.length !== 1) throw bad('it does not have exactly one signer');
  const info = children(sequence(signers[0]));
  const signer = certificates.find((one) => isNamed(one, info[1]));
  if (!signer) throw bad("the signer's certificate is not in it");
  const digest = ownValue(DIGESTS, oid(children(sequence(info[2]))[0]));
  if (!digest) throw bad('its digest algorithm is not supported');
  const attributes = info[3]?.tag === TAG.first ? info[3] : undefined;
  const [algorithm, signature] = info.slice(attributes ? 4 : 3);
  if (!RSA.includes(oid(children(sequence(algorithm))[0]))) throw bad('its signature is not an RSA signature');
  if (signature?.tag !== TAG.octets) throw bad('it has no signature');
  const signed = attributes ? signedAttributes(attributes, content, digest, oid(contentType)) : content;
  if (!verify(digest, signed, signer.publicKey, signature.content)) throw bad('its signature does not match');
  return { content, signer, certificates };
}

/** The signed bytes of a message with attributes, which contain the content's type and digest. */
function signedAttributes(attributes: Der, content: Buffer, digest: string, contentType: string): Buffer {
  const values = new Map(
    children(attributes).map((attribute) => {
      const [type, set] = children(sequence(attribute));
      return [oid(type), children(set ?? nothing())];
    }),
  );
  const named = values.get(CONTENT_TYPE);
  const digests = values.get(MESSAGE_DIGEST);
  if (named?.length !== 1 || oid(named[0]) !== contentType) throw bad('its attributes name an unexpected type');
  const found = digests?.length === 1 ? digests[0] : undefined;
  if (found?.tag !== TAG.octets || !found.content.equals(createHash(digest).update(content).digest()))
    throw bad('its content was changed');
  // signed as a SET, though the message contains it under an implicit tag
  const whole = Buffer.from(attributes.whole);
  whole[0] = TAG.set;
  return whole;
}

/** Whether the signer names this certificate, by issuer and serial number. */
function isNamed(one: X509Certificate, name: Der | undefined): boolean {
  if (name?.tag !== TAG.sequence) return false;
  const [issuer, serial] = children(name);
  const [toBeSigned] = children(readDer(one.raw).element);
  const fields = children(sequence(toBeSigned)).filter(({ tag }) => tag !== TAG.first);
  const [ownSerial, , ownIssuer] = fields;
  return Boolean(issuer && serial && ownIssuer?.whole.equals(issuer.whole) && ownSerial?.whole.equals(serial.whole));
}

function certificate(der: Buffer): X509Certificate {
  let read: X509Certificate;
  let key: KeyObject;
  try {
    read = new X509Certificate(der);
    // an invalid key throws only when it is used
    key = read.publicKey;
  } catch {
    throw bad('a certificate in it cannot be parsed');
  }
  if (!hasUsualSize(key)) throw bad('a certificate in it has a key that is not supported');
  return read;
}

function hasUsualSize({ asymmetricKeyType: type, asymmetricKeyDetails: details }: KeyObject): boolean {
  if (type === 'ec') return CURVES.includes(details?.namedCurve);
  const { modulusLength = Infinity, publicExponent = MAX_RSA_EXPONENT + 1n } = details ?? {};
  return type === 'rsa' && modulusLength <= MAX_RSA_BITS && publicExponent <= MAX_RSA_EXPONENT;
}

function sequence(element: Der | undefined): Der {
  if (element?.tag !== TAG.sequence) throw bad('it has an unexpected structure');
  return element;
}

function nothing(): never {
  throw bad('it has an unexpected structure');
}
