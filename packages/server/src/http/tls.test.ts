import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { type IncomingMessage, request as plainRequest } from 'node:http';
import { createServer as createHttpsServer, request } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import {
  type ConnectionOptions,
  connect,
  getCACertificates,
  type PeerCertificate,
  setDefaultCACertificates,
  type TLSSocket,
} from 'node:tls';
import type { DeploymentSecurity } from '@ropewalk/contract';
import { eventually, startTestServer, type TestServer } from '@ropewalk/testkit';

const dir = mkdtempSync(join(tmpdir(), 'platform-tls-'));
const file = (name: string) => join(dir, name);

/** A key and a certificate for a name, signed by the test's authority or, without one, by itself. */
function certificate(name: string, { signed = true, serial = 1 } = {}): void {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', file(`${name}.key`)];
  const by = signed ? ['-CA', file('authority.pem'), '-CAkey', file('authority.key')] : [];
  const names = ['-subj', `/CN=${name}`, '-addext', `subjectAltName=DNS:${name}`, '-set_serial', String(serial)];
  execFileSync('openssl', ['req', '-x509', ...key, ...by, ...names, '-days', '2', '-out', file(`${name}.pem`)], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
}

let server: TestServer;
before(async () => {
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'],
      ...['-keyout', file('authority.key'), '-out', file('authority.pem'), '-subj', '/CN=authority'],
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  for (const name of ['coder.example.com', 'apps.example.com', 'client']) certificate(name);
  server = await startTestServer({ env: tls({ CODER_STRICT_TRANSPORT_SECURITY: '300' }) });
});
after(async () => {
  await server?.stop();
  rmSync(dir, { recursive: true, force: true });
});

function tls(more: Record<string, string> = {}): Record<string, string> {
  return {
    CODER_TLS_ENABLE: 'true',
    CODER_TLS_ADDRESS: '127.0.0.1:0',
    CODER_TLS_CERT_FILE: ['coder.example.com', 'apps.example.com'].map((name) => file(`${name}.pem`)).join(),
    CODER_TLS_KEY_FILE: ['coder.example.com', 'apps.example.com'].map((name) => file(`${name}.key`)).join(),
    ...more,
  };
}

interface Seen {
  status: number;
  headers: IncomingMessage['headers'];
  peer: PeerCertificate;
}

/** A request that trusts the test's authority only. */
function ask(at: TestServer, servername: string, options: ConnectionOptions & { path?: string } = {}): Promise<Seen> {
  const ca = readFileSync(file('authority.pem'));
  const { port } = new URL(at.tlsUrl!);
  return new Promise((resolve, reject) => {
    const asked = request(
      { host: '127.0.0.1', port, path: '/api/v2/buildinfo', agent: false, servername, ca, ...options } as never,
      (answer: IncomingMessage) => {
        const peer = (answer.socket as never as { getPeerCertificate(): PeerCertificate }).getPeerCertificate();
        answer.resume().on('end', () => resolve({ status: answer.statusCode!, headers: answer.headers, peer }));
      },
    );
    asked.on('error', reject).end();
  });
}

test('serves the API over TLS, with the certificate of the name that is asked for', async () => {
  assert.match(server.accessUrl, /^https:\/\/127\.0\.0\.1:\d+$/);
  for (const name of ['coder.example.com', 'apps.example.com']) {
    const { status, peer, headers } = await ask(server, name);
    assert.deepEqual([status, peer.subject.CN], [200, name]);
    assert.equal(headers['strict-transport-security'], 'max-age=300');
  }
  await assert.rejects(ask(server, 'other.example.com'), /does not match certificate/);
  await assert.rejects(ask(server, 'coder.example.com', { maxVersion: 'TLSv1.1', minVersion: 'TLSv1' }));
});

test('uses a replaced certificate without a restart, and keeps the last good one', async () => {
  const first = (await ask(server, 'apps.example.com')).peer.serialNumber;
  certificate('next', { serial: 77 });
  execFileSync('cp', [file('client.key'), file('apps.example.com.key.new')]);
  // the certificate alone, as between the two writes of a renewal: the pair does not fit
  const renewed = execFileSync('openssl', [
    ...['req', '-x509', '-key', file('client.key'), '-CA', file('authority.pem'), '-CAkey', file('authority.key')],
    ...['-subj', '/CN=apps.example.com', '-addext', 'subjectAltName=DNS:apps.example.com', '-set_serial', '77'],
    ...['-days', '2', '-out', file('renewed.pem')],
  ]);
  assert.ok(renewed);
  renameSync(file('renewed.pem'), file('apps.example.com.pem'));
  assert.equal((await ask(server, 'apps.example.com')).peer.serialNumber, first);
  renameSync(file('apps.example.com.key.new'), file('apps.example.com.key'));
  await eventually('the new certificate is used', async () => {
    return (await ask(server, 'apps.example.com')).peer.serialNumber !== first;
  });
  assert.equal((await ask(server, 'coder.example.com')).status, 200);
});

test('shows which certificates it presents, until when, and whether they fit the access URL', async () => {
  const { status, body } = await server.api<DeploymentSecurity>('GET', '/deployment/security');
  assert.equal(status, 200);
  const { enabled, hsts_seconds, certificates } = body.tls;
  assert.deepEqual([enabled, hsts_seconds], [true, 300]);
  assert.deepEqual(
    certificates.map(({ subject, names, matches_access_url }) => [subject, names, matches_access_url]),
    // the access URL is https://127.0.0.1
    [
      ['coder.example.com', ['coder.example.com'], false],
      ['apps.example.com', ['apps.example.com'], false],
    ],
  );
  const until = Date.parse(certificates[0]!.not_after) - Date.now();
  assert.ok(until > 0 && until <= 2 * 86_400_000);
  const named = await startTestServer({ env: tls({ CODER_ACCESS_URL: 'https://apps.example.com' }) });
  try {
    const of = (await named.api<DeploymentSecurity>('GET', '/deployment/security')).body.tls.certificates;
    assert.deepEqual(
      of.map((one) => one.matches_access_url),
      [false, true],
    );
  } finally {
    await named.stop();
  }
});

test('asks clients for certificates', async () => {
  const other = (kind: string) =>
    startTestServer({ env: tls({ CODER_TLS_CLIENT_AUTH: kind, CODER_TLS_CLIENT_CA_FILE: file('authority.pem') }) });
  certificate('stranger', { signed: false });
  const shown = (name: string) => ({ cert: readFileSync(file(`${name}.pem`)), key: readFileSync(file(`${name}.key`)) });
  const expected: Record<string, [none: boolean, known: boolean, stranger: boolean]> = {
    request: [true, true, true],
    'require-any': [false, true, true],
    'verify-if-given': [true, true, false],
    'require-and-verify': [false, true, false],
  };
  for (const [kind, accepted] of Object.entries(expected)) {
    const strict = await other(kind);
    try {
      const tries = [{}, shown('client'), shown('stranger')].map((options) =>
        ask(strict, 'coder.example.com', options).then(
          ({ status }) => status === 200,
          () => false,
        ),
      );
      assert.deepEqual(await Promise.all(tries), accepted, kind);
    } finally {
      await strict.stop();
    }
  }
});

test('redirects to the access URL', async () => {
  const access = await startTestServer({
    env: tls({
      CODER_ACCESS_URL: 'https://coder.example.com',
      CODER_WILDCARD_ACCESS_URL: '*.apps.example.com',
      CODER_REDIRECT_TO_ACCESS_URL: 'true',
    }),
    bare: true,
  });
  try {
    const plain = (path: string, headers: Record<string, string>) =>
      new Promise<[number | undefined, string | undefined]>((resolve, reject) => {
        plainRequest(`${access.url}${path}`, { headers, agent: false }, (answer) => {
          answer.resume();
          resolve([answer.statusCode, answer.headers.location]);
        })
          .on('error', reject)
          .end();
      });
    const [status, location] = await plain('/templates?filter=x', { host: 'elsewhere' });
    assert.deepEqual([status, location], [307, 'https://coder.example.com/templates?filter=x']);
    assert.equal((await plain('/', { host: 'coder.example.com' }))[0], 307, 'without TLS');
    assert.equal((await plain('//evil.example', { host: 'x' }))[1], 'https://coder.example.com//evil.example');
    assert.equal((await plain('/healthz', { host: 'x' }))[0], 200);
    const proxied = { host: 'coder.example.com', 'x-forwarded-proto': 'https' };
    assert.equal((await plain('/api/v2/buildinfo', proxied))[0], 200);
    assert.equal(
      (await ask(access, 'coder.example.com', { headers: { host: 'coder.example.com' } } as never)).status,
      200,
    );
    const app = { host: 'code--main--dev--ada.apps.example.com', 'x-forwarded-proto': 'https' };
    assert.notEqual((await plain('/', app))[1], 'https://coder.example.com/', 'apps have their own hosts');
  } finally {
    await access.stop();
  }
});

test('chooses suites by their standard names', async () => {
  const CODER_TLS_CIPHERS = 'TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256';
  const few = await startTestServer({ env: tls({ CODER_TLS_CIPHERS }), bare: true });
  try {
    const { port } = new URL(few.tlsUrl!);
    const socket = connect({ host: '127.0.0.1', port: Number(port), rejectUnauthorized: false, maxVersion: 'TLSv1.2' });
    await once(socket, 'secureConnect');
    assert.match(socket.getCipher().name, /^ECDHE-ECDSA-(AES256-GCM-SHA384|CHACHA20-POLY1305)$/);
    socket.destroy();
  } finally {
    await few.stop();
  }
});

test('accepts old suites and versions only where the options say so', async () => {
  const CODER_TLS_CIPHERS = 'TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256';
  const weak = await startTestServer({
    env: tls({ CODER_TLS_CIPHERS, CODER_TLS_ALLOW_INSECURE_CIPHERS: 'true' }),
    bare: true,
  });
  assert.equal((await ask(weak, 'coder.example.com')).status, 200);
  await weak.stop();
  const strict = await startTestServer({ env: tls({ CODER_TLS_MIN_VERSION: 'tls13' }), bare: true });
  await assert.rejects(ask(strict, 'coder.example.com', { maxVersion: 'TLSv1.2' }));
  assert.equal((await ask(strict, 'coder.example.com')).status, 200);
  await strict.stop();
});

test('explains options that cannot work', async () => {
  for (const [env, words] of [
    [{ CODER_TLS_ENABLE: 'true' }, /Set --tls-cert-file and --tls-key-file/],
    [{ ...tls(), CODER_TLS_KEY_FILE: file('client.key') }, /names 2 files and --tls-key-file names 1/],
    [
      { ...tls(), CODER_TLS_CERT_FILE: `${file('missing.pem')},${file('client.pem')}` },
      /Could not read .*missing\.pem/,
    ],
    [tls({ CODER_TLS_CERT_FILE: `${file('client.pem')},${file('client.pem')}` }), /cannot be used/],
    [tls({ CODER_TLS_CLIENT_AUTH: 'require-and-verify' }), /Set --tls-client-ca-file/],
    [tls({ CODER_TLS_CIPHERS: 'TLS_NOTHING' }), /unknown or unsupported suite TLS_NOTHING/],
    [tls({ CODER_TLS_CIPHERS: 'TLS_RSA_WITH_AES_128_CBC_SHA' }), /is weak/],
    [{ CODER_STRICT_TRANSPORT_SECURITY: '1', CODER_STRICT_TRANSPORT_SECURITY_OPTIONS: 'x' }, /Unknown .* value "x"/],
    [{ CODER_ADDITIONAL_CSP_POLICY: 'default-src *; script-src *' }, /Invalid --additional-csp-policy/],
  ] as const) {
    await assert.rejects(startTestServer({ env: env as Record<string, string>, bare: true }), words);
  }
});

test('presents its certificate to other servers that ask for one', async (t) => {
  certificate('localhost');
  const seen: string[] = [];
  const provider = createHttpsServer(
    {
      cert: readFileSync(file('localhost.pem')),
      key: readFileSync(file('localhost.key')),
      ca: readFileSync(file('authority.pem')),
      requestCert: true,
      rejectUnauthorized: true,
    },
    (asked, response) => {
      seen.push(String((asked.socket as TLSSocket).getPeerCertificate().subject.CN));
      response.end('{"tag_name": "v999.0.0"}');
    },
  );
  provider.listen(0, '127.0.0.1');
  await once(provider, 'listening');
  const trusted = getCACertificates('default');
  setDefaultCACertificates([...trusted, readFileSync(file('authority.pem'), 'utf8')]);
  t.after(() => {
    setDefaultCACertificates(trusted);
    provider.closeAllConnections();
    provider.close();
  });
  const url = `https://localhost:${(provider.address() as AddressInfo).port}/`;
  const files = { CODER_TLS_CLIENT_CERT_FILE: file('client.pem'), CODER_TLS_CLIENT_KEY_FILE: file('client.key') };
  const own = await startTestServer({
    bare: true,
    env: { ...files, CODER_UPDATE_CHECK: 'true', CODER_UPDATE_CHECK_URL: url },
  });
  await eventually('the request', () => seen.includes('client')).finally(() => own.stop());
  await assert.rejects(fetch(url), 'not without the server');
  for (const [env, message] of [
    [{ CODER_TLS_CLIENT_CERT_FILE: file('client.pem') }, /need each other: set both/],
    [{ ...files, CODER_TLS_CLIENT_KEY_FILE: file('localhost.key') }, /Cannot use --tls-client-cert-file/],
  ] as const)
    await assert.rejects(startTestServer({ bare: true, env }), message);
});
