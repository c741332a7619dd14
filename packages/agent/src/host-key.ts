import { createPrivateKey, createPublicKey, hkdfSync } from 'node:crypto';

export interface HostKey {
  /** In OpenSSH's private key format, which ssh2 reads. */
  privateKey: string;
  /** The public key in SSH wire format. */
  publicBlob: Buffer;
}

/**
 * Bound into the derivation, so that no other use of the token can yield the same key. Changing it changes all host
 * keys.
 */
const INFO = 'platform agent ssh host key v1';
/** The header of an ed25519 key in PKCS #8. The seed follows it. */
const PKCS8_HEAD = Buffer.from('302e020100300506032b657004220420', 'hex');

function field(data: string | Buffer): Buffer {
  const bytes = Buffer.from(data as string);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

/**
 * Derives the agent's SSH host key from its token: the same after each restart without a disk, and known only to the
 * token's holder.
 */
export function deriveHostKey(token: string): HostKey {
  const seed = Buffer.from(hkdfSync('sha256', token, Buffer.alloc(0), INFO, 32));
  const key = createPrivateKey({ key: Buffer.concat([PKCS8_HEAD, seed]), format: 'der', type: 'pkcs8' });
  const spki = createPublicKey(key).export({ format: 'der', type: 'spki' });
  const publicKey = spki.subarray(spki.length - 32);
  const publicBlob = Buffer.concat([field('ssh-ed25519'), field(publicKey)]);
  // The two check numbers detect a wrong passphrase. Without a passphrase any equal pair works.
  const secret = Buffer.concat([
    Buffer.alloc(8),
    field('ssh-ed25519'),
    field(publicKey),
    field(Buffer.concat([seed, publicKey])),
    field(''),
  ]);
  const padding = Buffer.from(Array.from({ length: (8 - (secret.length % 8)) % 8 }, (_, i) => i + 1));
  const one = Buffer.from([0, 0, 0, 1]);
  const body = Buffer.concat([
    Buffer.from('openssh-key-v1\0'),
    field('none'),
    field('none'),
    field(''),
    one,
    field(publicBlob),
    field(Buffer.concat([secret, padding])),
  ]);
  const lines = body.toString('base64').match(/.{1,70}/g)!;
  const privateKey = `-----BEGIN OPENSSH PRIVATE KEY-----\n${lines.join('\n')}\n-----END OPENSSH PRIVATE KEY-----\n`;
  return { privateKey, publicBlob };
}
