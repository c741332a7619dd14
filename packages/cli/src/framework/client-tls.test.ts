import assert from 'node:assert/strict';
import { createPrivateKey } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { createCertificate } from '@ropewalk/kit/certificate';
import { eventually, startTestServer, startTestWorkspace, type TestServer } from '@ropewalk/testkit';
import { invoke } from '../testing/invoke.ts';

const VALID_MS = 3_600_000;
const dir = mkdtempSync(join(tmpdir(), 'client-tls-'));
const file = (name: string) => join(dir, name);
let server: TestServer;
let url: string;

before(async () => {
  const authority = createCertificate({ name: 'authority', validMs: VALID_MS });
  const issuer = { name: 'authority', privateKey: createPrivateKey(authority.key) };
  writeFileSync(file('ca.pem'), authority.cert);
  for (const name of ['localhost', 'client']) {
    const { cert, key } = createCertificate({ name, hosts: [name], validMs: VALID_MS, issuer });
    writeFileSync(file(`${name}.pem`), cert);
    writeFileSync(file(`${name}.key`), key);
  }
  server = await startTestServer({
    env: {
      CODER_TLS_ENABLE: 'true',
      CODER_TLS_ADDRESS: '127.0.0.1:0',
      CODER_TLS_CERT_FILE: file('localhost.pem'),
      CODER_TLS_KEY_FILE: file('localhost.key'),
      CODER_TLS_CLIENT_AUTH: 'require-and-verify',
      CODER_TLS_CLIENT_CA_FILE: file('ca.pem'),
    },
  });
  url = `https://localhost:${new URL(server.tlsUrl!).port}`;
});
after(async () => {
  await server.stop();
  rmSync(dir, { recursive: true, force: true });
});

const CA = ['--client-tls-ca-file', file('ca.pem')];
const CERTIFICATE = ['--client-tls-cert-file', file('client.pem'), '--client-tls-key-file', file('client.key')];
const coder = (words: string[], env: Record<string, string> = {}) =>
  invoke(words, { CODER_URL: url, CODER_SESSION_TOKEN: server.adminToken, ...env });

test('requests present the client certificate, to a server that the given authority signs', async () => {
  const fromFlags = await coder(['whoami', ...CA, ...CERTIFICATE]);
  assert.deepEqual([fromFlags.code, fromFlags.stderr], [0, '']);
  assert.match(fromFlags.stdout, /^You are admin /);
  const fromEnv = await coder(['whoami'], {
    CODER_CLIENT_TLS_CA_FILE: file('ca.pem'),
    CODER_CLIENT_TLS_CERT_FILE: file('client.pem'),
    CODER_CLIENT_TLS_KEY_FILE: file('client.key'),
  });
  assert.equal(fromEnv.code, 0, fromEnv.stderr);
  for (const [flags, reason] of [
    [CERTIFICATE, /^error: Could not reach https:\/\/localhost:\d+: self-signed certificate in certificate chain\n$/],
    [CA, /^error: Could not reach https:\/\/localhost:\d+: (.*certificate required|the connection was reset)/],
  ] as const) {
    const { code, stdout, stderr } = await coder(['whoami', ...flags]);
    assert.deepEqual([code, stdout], [1, '']);
    assert.match(stderr, reason);
  }
});

test('streams and terminals present it too', async (t) => {
  const dev = await startTestWorkspace(server, 'dev');
  t.after(() => dev.stop());
  const ssh = await coder(['ssh', ...CA, ...CERTIFICATE, 'dev', '--', 'echo', 'through TLS']);
  assert.deepEqual([ssh.code, ssh.stdout, ssh.stderr], [0, 'through TLS\n', '']);
  const checked = await coder(['netcheck', ...CA, ...CERTIFICATE]);
  assert.equal(checked.code, 0, checked.stdout);
  const interrupted = new AbortController();
  const env = { CODER_URL: url, CODER_SESSION_TOKEN: server.adminToken };
  let shown = '';
  const following = invoke(
    ['logs', 'dev', '-f', ...CA, ...CERTIFICATE],
    env,
    '',
    (text) => {
      shown = text;
    },
    interrupted.signal,
  );
  const { status } = await server.api('PATCH', '/workspaceagents/me/logs', {
    token: dev.token,
    body: { logs: [{ created_at: new Date().toISOString(), level: 'info', output: 'over a stream' }] },
  });
  assert.equal(status, 200);
  await eventually('the line is there', async () => shown.includes('over a stream'));
  interrupted.abort();
  assert.equal((await following).code, 130);
});

test('explains files that it cannot use', async () => {
  writeFileSync(file('text.pem'), 'not a certificate');
  const cases: [string[], RegExp][] = [
    [
      CERTIFICATE.slice(0, 2),
      /^error: --client-tls-cert-file and --client-tls-key-file need each other: set both\.\n$/,
    ],
    [CERTIFICATE.slice(2), /need each other/],
    [['--client-tls-ca-file', file('none.pem')], /^error: Could not read --client-tls-ca-file: ENOENT/],
    [
      ['--client-tls-ca-file', file('text.pem')],
      /^error: --client-tls-ca-file ".*text\.pem" has no certificate in PEM/,
    ],
    [
      ['--client-tls-cert-file', file('client.pem'), '--client-tls-key-file', file('localhost.key')],
      /^error: Cannot use --client-tls-cert-file ".*" with --client-tls-key-file ".*": .*key values mismatch\n$/,
    ],
  ];
  for (const [flags, message] of cases) {
    const { code, stdout, stderr } = await coder(['whoami', ...flags]);
    assert.deepEqual([code, stdout], [1, ''], flags.join(' '));
    assert.match(stderr, message);
  }
});
