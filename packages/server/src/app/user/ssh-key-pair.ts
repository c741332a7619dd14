import { generateKeyPair, type KeyObject, randomBytes } from 'node:crypto';
import { promisify } from 'node:util';

const generate = promisify(generateKeyPair);

export type SshKeyAlgorithm = 'ed25519' | 'ecdsa' | 'rsa4096';

export interface SshKeyTexts {
  /** A line of an authorized_keys file, without a comment. */
  publicKey: string;
  /** A file that ssh reads. */
  privateKey: string;
}

/** Creates a key pair for SSH. An RSA key takes seconds, in another thread. */
export async function newSshKeyPair(algorithm: SshKeyAlgorithm): Promise<SshKeyTexts> {
  switch (algorithm) {
    case 'ed25519': {
      const { publicKey, privateKey } = await generate('ed25519');
      return ed25519Texts(publicKey, privateKey);
    }
    case 'ecdsa': {
      const { publicKey, privateKey } = await generate('ec', { namedCurve: 'P-256' });
      const { x, y } = jwk(publicKey);
      const point = Buffer.concat([Buffer.from([4]), bytesOf(x), bytesOf(y)]);
      return {
        publicKey: publicLine('ecdsa-sha2-nistp256', string('nistp256'), string(point)),
        privateKey: privateKey.export({ type: 'sec1', format: 'pem' }) as string,
      };
    }
    case 'rsa4096': {
      const { publicKey, privateKey } = await generate('rsa', { modulusLength: 4096 });
      const { e, n } = jwk(publicKey);
      return {
        publicKey: publicLine('ssh-rsa', positive(bytesOf(e)), positive(bytesOf(n))),
        privateKey: privateKey.export({ type: 'pkcs1', format: 'pem' }) as string,
      };
    }
  }
}

const jwk = (key: KeyObject) => key.export({ format: 'jwk' });
const bytesOf = (text: string | undefined) => Buffer.from(text!, 'base64url');

/** A string of the SSH protocol: its length and its bytes. */
function string(data: Buffer | string): Buffer {
  const bytes = Buffer.from(data as string);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

/** A positive number of the SSH protocol: the highest bit is the sign. */
const positive = (bytes: Buffer) => string(bytes[0]! & 0x80 ? Buffer.concat([Buffer.from([0]), bytes]) : bytes);

const publicLine = (type: string, ...parts: Buffer[]) =>
  `${type} ${Buffer.concat([string(type), ...parts]).toString('base64')}\n`;

/** OpenSSH reads ed25519 keys only in its own format. */
function ed25519Texts(publicKey: KeyObject, privateKey: KeyObject): SshKeyTexts {
  const pub = bytesOf(jwk(publicKey).x);
  const seed = bytesOf(jwk(privateKey).d);
  const type = string('ssh-ed25519');
  const check = randomBytes(4);
  const noComment = string('');
  const secret = Buffer.concat([check, check, type, string(pub), string(Buffer.concat([seed, pub])), noComment]);
  const padding = Buffer.from(Array.from({ length: (8 - (secret.length % 8)) % 8 }, (_, i) => i + 1));
  const file = Buffer.concat([
    Buffer.from('openssh-key-v1\0'),
    string('none'),
    string('none'),
    string(''),
    Buffer.from([0, 0, 0, 1]),
    string(Buffer.concat([type, string(pub)])),
    string(Buffer.concat([secret, padding])),
  ]);
  const lines = file
    .toString('base64')
    .match(/.{1,70}/g)!
    .join('\n');
  return {
    publicKey: publicLine('ssh-ed25519', string(pub)),
    privateKey: `-----BEGIN OPENSSH PRIVATE KEY-----\n${lines}\n-----END OPENSSH PRIVATE KEY-----\n`,
  };
}
