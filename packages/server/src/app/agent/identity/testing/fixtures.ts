import { execFileSync } from 'node:child_process';
import { generateKeyPairSync, sign } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A test cloud made with openssl: an authority, an intermediate authority, a signer. */
export interface TestCloud {
  dir: string;
  /** PEM files. */
  root: string;
  /** The authority and the intermediate authority. */
  chain: string;
  /** A certificate that signs documents itself. */
  aws: string;
  awsSign(document: string): string;
  /** An attested document as Azure creates it: CMS with its content, by default from an allowed signer. */
  azureSign(document: string, signer?: 'metadata' | 'other' | 'selfsigned' | 'slow' | 'code', more?: string[]): string;
  /** A PEM file with certificates of the signer `selfsigned`, each of which could have issued each other. */
  ring: string;
  remove(): void;
}

export function makeTestCloud(): TestCloud {
  const dir = mkdtempSync(join(tmpdir(), 'platform-cloud-'));
  const at = (name: string) => join(dir, name);
  const openssl = (...args: string[]) =>
    execFileSync('openssl', args, { cwd: dir, stdio: ['ignore', 'pipe', 'ignore'] });
  const request = (name: string, subject: string) =>
    openssl('req', '-newkey', 'rsa:2048', '-nodes', '-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', subject);
  const issue = (name: string, by: string, extensions: string) => {
    writeFileSync(at(`${name}.ext`), extensions);
    const given = ['-in', `${name}.csr`, '-CA', `${by}.pem`, '-CAkey', `${by}.key`, '-CAcreateserial'];
    openssl('x509', '-req', ...given, '-days', '30', '-sha256', '-out', `${name}.pem`, '-extfile', `${name}.ext`);
  };
  const authority = 'basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n';
  const self = (name: string, subject: string) =>
    openssl(
      'req',
      '-x509',
      '-newkey',
      'rsa:2048',
      '-nodes',
      '-keyout',
      `${name}.key`,
      '-out',
      `${name}.pem`,
      '-subj',
      subject,
    );
  self('root', '/CN=Test Root');
  request('between', '/CN=Test Between');
  issue('between', 'root', authority);
  const names = 'subjectAltName=DNS:metadata.azure.com,DNS:eastus.metadata.azure.com\n';
  request('metadata', '/CN=metadata.azure.com');
  issue('metadata', 'between', `${names}extendedKeyUsage=serverAuth,clientAuth\n`);
  request('other', '/CN=azure.example.com');
  issue('other', 'between', 'subjectAltName=DNS:azure.example.com\n');
  request('code', '/CN=metadata.azure.com');
  issue('code', 'between', 'extendedKeyUsage=codeSigning\n');
  self('selfsigned', '/CN=metadata.azure.com');
  const again = (name: string, from: string) =>
    openssl('req', '-x509', '-key', `${from}.key`, '-out', `${name}.pem`, '-subj', '/CN=metadata.azure.com');
  const rest = Array.from({ length: 9 }, (_, i) => `ring-${i}`);
  for (const name of rest) again(name, 'selfsigned');
  writeFileSync(at('ring.pem'), rest.map((name) => readFileSync(at(`${name}.pem`), 'utf8')).join(''));
  const exponent = (2n ** 1_000n + 1n).toString();
  const slow = ['-algorithm', 'RSA', '-pkeyopt', 'rsa_keygen_bits:2048', '-pkeyopt', `rsa_keygen_pubexp:${exponent}`];
  openssl('genpkey', ...slow, '-out', 'slow.key');
  again('slow', 'slow');
  self('aws', '/CN=Test Web Services');
  writeFileSync(at('chain.pem'), readFileSync(at('root.pem'), 'utf8') + readFileSync(at('between.pem'), 'utf8'));
  return {
    dir,
    root: at('root.pem'),
    chain: at('chain.pem'),
    ring: at('ring.pem'),
    aws: at('aws.pem'),
    awsSign: (document) => sign('sha256', Buffer.from(document), readFileSync(at('aws.key'))).toString('base64'),
    azureSign(document, signer = 'metadata', more = []) {
      writeFileSync(at('document'), document);
      const key = ['-signer', `${signer}.pem`, '-inkey', `${signer}.key`];
      const args = ['cms', '-sign', '-binary', '-nodetach', '-outform', 'DER', '-md', 'sha256', '-in', 'document'];
      return openssl(...args, ...key, ...more).toString('base64');
    },
    remove: () => rmSync(dir, { recursive: true, force: true }),
  };
}

/** Signs identity tokens as Google does, with a test key. */
export function makeTestGoogle(kid = 'key-1') {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  return {
    keys: { keys: [{ ...publicKey.export({ format: 'jwk' }), kid, alg: 'RS256', use: 'sig' }] },
    token(claims: object, head: object = {}) {
      const signed = `${part({ alg: 'RS256', kid, typ: 'JWT', ...head })}.${part(claims)}`;
      return `${signed}.${sign('sha256', Buffer.from(signed), privateKey).toString('base64url')}`;
    },
  };
}
