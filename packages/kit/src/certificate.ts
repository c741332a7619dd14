// X.509 certificates for services that need one and have none. Node.js reads certificates, but does not make them.
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';

/** A certificate and its key as PEM. */
export interface Certified {
  cert: string;
  key: string;
}

export interface Authority {
  /** The common name of its certificate. */
  name: string;
  privateKey: KeyObject;
}

export interface CertificateOptions {
  /** The common name. */
  name: string;
  /** The names of hosts that it is valid for. */
  hosts?: readonly string[];
  validMs: number;
  /** Who signs it. By default it signs itself, and is its own authority. */
  issuer?: Authority;
}

/** Clocks of two machines differ. */
const EARLIER_MS = 3_600_000;

/** An element of DER. */
function der(tag: number, ...parts: Uint8Array[]): Buffer {
  const body = Buffer.concat(parts);
  const { length } = body;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...size]), body]);
}

const sequence = (...parts: Uint8Array[]) => der(0x30, ...parts);
const oid = (...bytes: number[]) => der(0x06, Buffer.from(bytes));
const bits = (unused: number, bytes: Uint8Array) => der(0x03, Buffer.from([unused]), bytes);
const time = (date: Date) => der(0x18, Buffer.from(date.toISOString().replaceAll(/[-:T]|\.\d+/g, '')));
const commonName = (name: string) => sequence(der(0x31, sequence(oid(0x55, 0x04, 0x03), der(0x0c, Buffer.from(name)))));

const TRUE = der(0x01, Buffer.from([0xff]));
const ECDSA_SHA256 = sequence(oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02));

/** An extension of the family 2.5.29. */
const extension = (id: number, critical: boolean, value: Uint8Array) =>
  sequence(oid(0x55, 0x1d, id), ...(critical ? [TRUE] : []), der(0x04, value));

function extensions(hosts: readonly string[], authority: boolean): Buffer {
  const names = hosts.map((host) => der(0x82, Buffer.from(host)));
  const purpose = (id: number) => oid(0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, id);
  return der(
    0xa3,
    sequence(
      extension(19, true, authority ? sequence(TRUE) : sequence()),
      // digitalSignature, and for an authority also keyCertSign
      extension(15, true, authority ? bits(2, Buffer.from([0x84])) : bits(7, Buffer.from([0x80]))),
      // of a server and of a client
      extension(37, false, sequence(purpose(1), purpose(2))),
      ...(names.length > 0 ? [extension(17, false, sequence(...names))] : []),
    ),
  );
}

/** Makes a key (P-256) and its certificate. */
export function createCertificate({
  name,
  hosts = [],
  validMs,
  issuer,
}: CertificateOptions): Certified & { authority: Authority } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const now = Date.now();
  const body = sequence(
    // version 3
    der(0xa0, der(0x02, Buffer.from([2]))),
    // a positive serial number
    der(0x02, Buffer.from([1]), randomBytes(15)),
    ECDSA_SHA256,
    commonName(issuer?.name ?? name),
    sequence(time(new Date(now - EARLIER_MS)), time(new Date(now + validMs))),
    commonName(name),
    publicKey.export({ type: 'spki', format: 'der' }),
    extensions(hosts, issuer === undefined),
  );
  const signature = bits(0, sign('sha256', body, issuer?.privateKey ?? privateKey));
  const text = sequence(body, ECDSA_SHA256, signature).toString('base64').replaceAll(/.{64}/g, '$&\n').trimEnd();
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
    cert: `-----BEGIN CERTIFICATE-----\n${text}\n-----END CERTIFICATE-----\n`,
    authority: { name, privateKey },
  };
}
