// OpenPGP, as far as a server needs it to sign files: packets of version 4 (RFC 4880), with Ed25519 as GnuPG introduced it and
// RFC 9580 calls EdDSALegacy, and SHA-256. A certificate is a public key, a name and the key's signature over both. A detached
// signature is in a file next to the signed one. Both are sent in ASCII armor.

import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, type Hash, sign } from 'node:crypto';

/** A key pair as it is stored. */
export interface SigningKey {
  /** The private key, as PKCS #8 in base64. */
  privateKey: string;
  /** The creation time, in seconds. Part of the fingerprint. */
  created: number;
  /** The name of the key's owner. */
  userId: string;
}

const TAGS = { signature: 2, publicKey: 6, userId: 13 };
const SIGNATURES = { file: 0x00, certificate: 0x13 };
const SUBPACKETS = { created: 2, issuer: 16, keyFlags: 27, issuerFingerprint: 33 };
const VERSION = 4;
const EDDSA = 22;
const SHA256 = 8;
/** The object identifier of Ed25519, after its length. */
const ED25519 = Buffer.from('092b06010401da470f01', 'hex');
/** Marks a point in its native form. */
const NATIVE_POINT = 0x40;
/** The last bytes of the public key's DER form. */
const POINT_BYTES = 32;
/** The key may certify and sign. */
const MAY_CERTIFY_AND_SIGN = 0x03;

export const newSigningKey = (userId: string, created: number): SigningKey => ({
  privateKey: generateKeyPairSync('ed25519').privateKey.export({ format: 'der', type: 'pkcs8' }).toString('base64'),
  created,
  userId,
});

const byte = (...values: number[]) => Buffer.from(values);
const uint16 = (value: number) => byte(value >> 8, value & 0xff);
function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** A number of any length: its length in bits and its bytes without leading zeros. */
function bigNumber(bytes: Buffer): Buffer {
  const first = bytes.findIndex((value) => value !== 0);
  const rest = bytes.subarray(first < 0 ? bytes.length : first);
  const bits = rest.length === 0 ? 0 : rest.length * 8 - (Math.clz32(rest[0]!) - 24);
  return Buffer.concat([uint16(bits), rest]);
}

function packet(tag: number, ...parts: Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  // five bytes are valid for each length
  return Buffer.concat([byte(0xc0 | tag, 0xff), uint32(body.length), body]);
}

/** Shorter than 192 bytes. */
function subpacket(type: number, body: Buffer): Buffer {
  return Buffer.concat([byte(body.length + 1, type), body]);
}

const privateKeyOf = ({ privateKey }: SigningKey) =>
  createPrivateKey({ key: Buffer.from(privateKey, 'base64'), format: 'der', type: 'pkcs8' });

function publicKeyBody(key: SigningKey): Buffer {
  const der = createPublicKey(privateKeyOf(key)).export({ format: 'der', type: 'spki' });
  const point = Buffer.concat([byte(NATIVE_POINT), der.subarray(-POINT_BYTES)]);
  return Buffer.concat([byte(VERSION), uint32(key.created), byte(EDDSA), ED25519, bigNumber(point)]);
}

/** The public key as fingerprints and certificates hash it. */
function hashedKey(key: SigningKey): Buffer {
  const body = publicKeyBody(key);
  return Buffer.concat([byte(0x99), uint16(body.length), body]);
}

const fingerprintBytes = (key: SigningKey) => createHash('sha1').update(hashedKey(key)).digest();

/** The fingerprint as GnuPG writes it: 40 hexadecimal digits in upper case. */
export const keyFingerprint = (key: SigningKey): string => fingerprintBytes(key).toString('hex').toUpperCase();

/** A signature over what `hash`, a SHA-256, has received. `at`: the time of the signature, in seconds. */
function signaturePacket(key: SigningKey, type: number, hash: Hash, at: number, ...more: Buffer[]): Buffer {
  const fingerprint = fingerprintBytes(key);
  const hashed = Buffer.concat([
    subpacket(SUBPACKETS.created, uint32(at)),
    subpacket(SUBPACKETS.issuerFingerprint, Buffer.concat([byte(VERSION), fingerprint])),
    ...more,
  ]);
  const head = Buffer.concat([byte(VERSION, type, EDDSA, SHA256), uint16(hashed.length), hashed]);
  const digest = hash.update(head).update(byte(VERSION, 0xff)).update(uint32(head.length)).digest();
  const signed = sign(null, digest, privateKeyOf(key));
  const unhashed = subpacket(SUBPACKETS.issuer, fingerprint.subarray(-8));
  const halves = [signed.subarray(0, 32), signed.subarray(32)].map(bigNumber);
  return packet(TAGS.signature, head, uint16(unhashed.length), unhashed, digest.subarray(0, 2), ...halves);
}

/** The certificate that verifies this key's signatures. Its comment is the fingerprint. */
export function publicKeyBlock(key: SigningKey): string {
  const name = Buffer.from(key.userId);
  const hash = createHash('sha256').update(hashedKey(key)).update(byte(0xb4)).update(uint32(name.length)).update(name);
  const flags = subpacket(SUBPACKETS.keyFlags, byte(MAY_CERTIFY_AND_SIGN));
  const bytes = Buffer.concat([
    packet(TAGS.publicKey, publicKeyBody(key)),
    packet(TAGS.userId, name),
    signaturePacket(key, SIGNATURES.certificate, hash, key.created, flags),
  ]);
  return armor('PUBLIC KEY BLOCK', bytes, `Comment: ${keyFingerprint(key)}\n`);
}

/** A detached signature of a file. `content`: a SHA-256 that has received the file's bytes. It is used up. */
export const detachedSignature = (key: SigningKey, content: Hash, at: number): string =>
  armor('SIGNATURE', signaturePacket(key, SIGNATURES.file, content, at));

function armor(kind: string, bytes: Buffer, headers = ''): string {
  const lines = bytes.toString('base64').replaceAll(/.{64}(?=.)/g, '$&\n');
  const sum = checksum(bytes).toString('base64');
  return `-----BEGIN PGP ${kind}-----\n${headers}\n${lines}\n=${sum}\n-----END PGP ${kind}-----\n`;
}

const CRC_START = 0xb704ce;
const CRC_POLYNOMIAL = 0x1864cfb;

/** The CRC-24 of ASCII armor, which older programs require. */
function checksum(bytes: Buffer): Buffer {
  let crc = CRC_START;
  for (const value of bytes) {
    crc ^= value << 16;
    for (let bit = 0; bit < 8; bit++) {
      crc <<= 1;
      if (crc & 0x1000000) crc ^= CRC_POLYNOMIAL;
    }
  }
  return uint32(crc).subarray(1);
}
