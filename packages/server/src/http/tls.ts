import { X509Certificate } from 'node:crypto';
import { readFileSync, unwatchFile, watchFile } from 'node:fs';
import type { Server } from 'node:http';
import { createServer as createHttpsServer, type Server as HttpsServer } from 'node:https';
import {
  createSecureContext,
  getCiphers,
  type SecureContextOptions,
  type SecureVersion,
  type TLSSocket,
} from 'node:tls';
import { AppError, errorText, type Logger } from '@ropewalk/kit';
import { ownValue } from '@ropewalk/kit/own-value';
import type { PresentedCertificate } from '../app/deployment/security.ts';
import type { Config } from '../config/options.ts';
import { LISTENER } from './listener.ts';

export type TlsConfig = Pick<
  Config,
  | 'tlsCertFile'
  | 'tlsKeyFile'
  | 'tlsClientCaFile'
  | 'tlsClientAuth'
  | 'tlsMinVersion'
  | 'tlsCiphers'
  | 'tlsAllowInsecureCiphers'
>;

/** How often changed files are looked for, in ms. Mounted secrets change without an event of the file system. */
const LOOK_MS = 2_000;

const VERSIONS: Readonly<Record<string, SecureVersion>> = {
  tls10: 'TLSv1',
  tls11: 'TLSv1.1',
  tls12: 'TLSv1.2',
  tls13: 'TLSv1.3',
};

const wrong = (text: string, cause?: unknown) => new AppError('invalid', text, { cause });

/** A certificate with its key, both as PEM. */
interface Pair {
  cert: string;
  key: string;
  certificate: X509Certificate;
}

export interface TlsServer {
  server: HttpsServer;
  /** The certificates that it presents now, in the order of the options. */
  certificates(): PresentedCertificate[];
}

/**
 * An HTTPS server whose requests and upgrades go to `server`. Of several certificates, it presents the first one that is
 * valid for the name that the client asks for, and otherwise the first one. Certificates that change on disk are used
 * from the next connection on. A pair that cannot be used is logged, and the last good one stays.
 * @throws AppError `invalid` that names the option or the file
 */
export function createTlsServer(server: Server, config: TlsConfig, log: Logger): TlsServer {
  const files = filePairs(config);
  const clients = clientRules(config);
  const shared: SecureContextOptions = {
    ciphers: cipherList(config),
    minVersion: ownValue(VERSIONS, config.tlsMinVersion)!,
    ...(clients.ca ? { ca: clients.ca } : {}),
  };
  const load = ([certFile, keyFile]: FilePair): Pair => {
    const [cert, key] = [read(certFile, '--tls-cert-file'), read(keyFile, '--tls-key-file')];
    try {
      createSecureContext({ ...shared, cert, key });
      return { cert, key, certificate: new X509Certificate(cert) };
    } catch (err) {
      throw wrong(`The certificate ${certFile} and the key ${keyFile} cannot be used: ${errorText(err)}`, err);
    }
  };
  const pairs = files.map(load);
  const secure = createHttpsServer({
    ...LISTENER,
    ...shared,
    cert: pairs[0]!.cert,
    key: pairs[0]!.key,
    requestCert: clients.request,
    rejectUnauthorized: clients.reject,
    SNICallback: (name, done) => {
      const { cert, key } = pairs.find(({ certificate }) => certificate.checkHost(name) !== undefined) ?? pairs[0]!;
      done(null, createSecureContext({ ...shared, cert, key }));
    },
  });
  const reload = (at: number) => {
    try {
      const pair = load(files[at]!);
      pairs[at] = pair;
      if (at === 0) secure.setSecureContext({ ...shared, cert: pair.cert, key: pair.key });
      log.info('the TLS certificate was replaced', { file: files[at]![0] });
    } catch (err) {
      // the other file of the pair may follow in a moment
      log.warn('the changed TLS certificate cannot be used', { err: errorText(err) });
    }
  };
  const watched = files.flatMap((pair, at) => pair.map((file) => ({ file, change: () => reload(at) })));
  for (const { file, change } of watched) watchFile(file, { interval: LOOK_MS, persistent: false }, change);
  secure.once('close', () => {
    for (const { file, change } of watched) unwatchFile(file, change);
  });
  secure.on('secureConnection', (socket: TLSSocket) => {
    if (!clients.accepts(socket)) socket.destroy();
  });
  for (const event of ['request', 'upgrade', 'checkContinue'] as const) {
    secure.on(event, (...given: unknown[]) => void server.emit(event, ...given));
  }
  return {
    server: secure,
    certificates: () => pairs.map(({ certificate }, at) => ({ file: files[at]![0], certificate })),
  };
}

type FilePair = readonly [cert: string, key: string];

function filePairs(config: TlsConfig): FilePair[] {
  const { tlsCertFile: certs, tlsKeyFile: keys } = config;
  if (certs.length === 0) throw wrong('Set --tls-cert-file and --tls-key-file: --tls-enable needs a certificate.');
  if (certs.length !== keys.length) {
    throw wrong(
      `--tls-cert-file names ${certs.length} files and --tls-key-file names ${keys.length}: each certificate needs its key.`,
    );
  }
  return certs.map((cert, at) => [cert, keys[at]!]);
}

function read(file: string, option: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (err) {
    throw wrong(`Could not read ${file} of ${option}: ${errorText(err)}`, err);
  }
}

/** What clients must show: upstream's values of --tls-client-auth, which are those of Go's crypto/tls. */
function clientRules(config: TlsConfig) {
  const { tlsClientAuth: kind, tlsClientCaFile: file } = config;
  const verifies = kind === 'verify-if-given' || kind === 'require-and-verify';
  if (verifies && file === '') {
    throw wrong(`Set --tls-client-ca-file: --tls-client-auth ${kind} checks certificates of clients.`);
  }
  const given = (socket: TLSSocket) => Object.keys(socket.getPeerCertificate() ?? {}).length > 0;
  return {
    ca: file === '' ? undefined : read(file, '--tls-client-ca-file'),
    request: kind !== 'none',
    reject: kind === 'require-and-verify',
    accepts(socket: TLSSocket): boolean {
      if (kind === 'require-any') return given(socket);
      return kind !== 'verify-if-given' || socket.authorized || !given(socket);
    },
  };
}

/** Suites without known weaknesses: forward secrecy, and no CBC with SHA-256, whose padding leaks by its time. */
const SECURE = /^(TLS_(AES|CHACHA20)|TLS_ECDHE_(RSA|ECDSA)_WITH_(AES_(128|256)_(GCM_SHA\d+|CBC_SHA)$|CHACHA20))/;

/**
 * OpenSSL's names of the suites with these standard names, such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256. Empty: those
 * of Node.js.
 */
function cipherList(config: TlsConfig): string {
  const { tlsCiphers: names, tlsAllowInsecureCiphers: any, tlsMinVersion: min } = config;
  const known = new Set(getCiphers().map((name) => name.toUpperCase()));
  const suites = names.map((name) => {
    const suite = openSslName(name.toUpperCase());
    if (!known.has(suite)) throw wrong(`--tls-ciphers names the unknown or unsupported suite ${name}.`);
    if (!any && !SECURE.test(name.toUpperCase())) {
      throw wrong(`The suite ${name} is weak. Remove it from --tls-ciphers, or set --tls-allow-insecure-ciphers.`);
    }
    return suite;
  });
  // OpenSSL has TLS below 1.2 only at its lowest level of security
  const level = min === 'tls10' || min === 'tls11' ? ':@SECLEVEL=0' : '';
  return (suites.length > 0 ? suites.join(':') : 'DEFAULT') + level;
}

function openSslName(name: string): string {
  const [, exchange, cipher] = /^TLS_(\w+)_WITH_(\w+)$/.exec(name) ?? [];
  if (exchange === undefined || cipher === undefined) return name; // TLS 1.3 has one name for both
  const short = cipher
    .replace(/^AES_(\d+)_CBC_/, 'AES$1-')
    .replace(/^AES_(\d+)_GCM_/, 'AES$1-GCM-')
    .replace(/^CHACHA20_POLY1305.*/, 'CHACHA20-POLY1305')
    .replace(/^3DES_EDE_CBC_SHA$/, 'DES-CBC3-SHA');
  return exchange === 'RSA' ? short : `${exchange.replaceAll('_', '-')}-${short}`;
}
