import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createDecipheriv, createECDH, createPublicKey, hkdfSync, randomBytes, verify } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import type { BuildInfoResponse } from '@ropewalk/contract';
import { createPerson, eventually, insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';

// A push service and a browser, as RFC 8030, 8188, 8291 and 8292 describe them.

let server: TestServer;
let service: Server;
let serviceUrl: string;
let status = 201;
const received: { path: string; headers: IncomingHttpHeaders; body: Buffer }[] = [];
const trusted = getCACertificates('default');
const dir = mkdtempSync(join(tmpdir(), 'web-push-'));
before(async () => {
  const [cert, key] = [join(dir, 'cert.pem'), join(dir, 'key.pem')];
  const names = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];
  const made = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', key, '-out', cert];
  execFileSync('openssl', ['req', '-x509', ...made, ...names, '-days', '2'], { stdio: ['ignore', 'ignore', 'pipe'] });
  setDefaultCACertificates([...trusted, readFileSync(cert, 'utf8')]);
  service = createServer({ cert: readFileSync(cert), key: readFileSync(key) }, async (request, response) => {
    const body = Buffer.concat(await request.toArray());
    received.push({ path: request.url!, headers: request.headers, body });
    response.writeHead(status).end();
  });
  service.listen(0, '127.0.0.1');
  await once(service, 'listening');
  serviceUrl = `https://localhost:${(service.address() as AddressInfo).port}`;
  server = await startTestServer({ env: { CODER_DANGEROUS_ALLOW_PRIVATE_PUSH_ADDRESSES: 'true' } });
});
after(async () => {
  await server.stop();
  setDefaultCACertificates(trusted);
  service.closeAllConnections();
  service.close();
  rmSync(dir, { recursive: true, force: true });
});

function newBrowser(path: string) {
  const pair = createECDH('prime256v1');
  const publicKey = pair.generateKeys();
  const auth = randomBytes(16);
  return {
    subscription: {
      endpoint: `${serviceUrl}${path}`,
      p256dh_key: publicKey.toString('base64url'),
      auth_key: auth.toString('base64url'),
    },
    decrypt(body: Buffer): Record<string, unknown> {
      const salt = body.subarray(0, 16);
      const length = body[20]!;
      const sender = body.subarray(21, 21 + length);
      const expand = (key: Buffer, by: Buffer, info: Buffer, bytes: number) =>
        Buffer.from(hkdfSync('sha256', key, by, info, bytes));
      const info = Buffer.concat([Buffer.from('WebPush: info\0'), publicKey, sender]);
      const secret = expand(pair.computeSecret(sender), auth, info, 32);
      const key = expand(secret, salt, Buffer.from('Content-Encoding: aes128gcm\0'), 16);
      const nonce = expand(secret, salt, Buffer.from('Content-Encoding: nonce\0'), 12);
      const sealed = body.subarray(21 + length);
      const cipher = createDecipheriv('aes-128-gcm', key, nonce);
      cipher.setAuthTag(sealed.subarray(-16));
      const padded = Buffer.concat([cipher.update(sealed.subarray(0, -16)), cipher.final()]);
      return JSON.parse(padded.subarray(0, padded.lastIndexOf(2)).toString());
    },
  };
}

/** Checks the proof that the server has the key that the browser subscribed with. */
function assertVapid(authorization: string, publicKey: string): void {
  const [, token, key] = /^vapid t=([^,]+), k=(.+)$/.exec(authorization)!;
  assert.equal(key, publicKey);
  const [head, claims, signature] = token!.split('.') as [string, string, string];
  const point = Buffer.from(publicKey, 'base64url');
  const [x, y] = [point.subarray(1, 33), point.subarray(33)].map((part) => part.toString('base64url'));
  const jwk = createPublicKey({ key: { kty: 'EC', crv: 'P-256', x: x!, y: y! }, format: 'jwk' });
  const signed = Buffer.from(`${head}.${claims}`);
  const proof = Buffer.from(signature, 'base64url');
  assert.ok(verify('sha256', signed, { key: jwk, dsaEncoding: 'ieee-p1363' }, proof));
  assert.equal(JSON.parse(Buffer.from(claims, 'base64url').toString()).aud, serviceUrl);
}

const PATH = '/users/me/webpush/subscription';

test('pushes notifications to the browsers of a person, encrypted for each', async () => {
  const { token } = await insertPerson(server, 'olga', ['owner']);
  const as = { token };
  const [one, two] = [newBrowser('/one'), newBrowser('/two')];
  for (const { subscription } of [one, two, two]) {
    assert.equal((await server.api('POST', PATH, { ...as, body: subscription })).status, 204);
  }
  await createPerson(server, 'newcomer');
  await eventually('both messages', () => received.length === 2);
  const { body: info } = await server.api<BuildInfoResponse>('GET', '/buildinfo');
  for (const [browser, path] of [
    [one, '/one'],
    [two, '/two'],
  ] as const) {
    const { headers, body } = received.find((message) => message.path === path)!;
    assertVapid(headers.authorization!, info.webpush_public_key!);
    assert.equal(headers['content-encoding'], 'aes128gcm');
    assert.ok(Number(headers['ttl']) > 0);
    const { title, body: text, actions } = browser.decrypt(body);
    assert.match(String(title), /account/i);
    assert.match(String(text), /newcomer/);
    assert.match(JSON.stringify(actions), /"url":"http/);
  }
});

test('forgets browsers that unsubscribed, here or at the push service', async () => {
  const { token, id } = await insertPerson(server, 'pia');
  const as = { token };
  const count = async () =>
    (await server.services.sql`SELECT 1 FROM webpush_subscriptions WHERE user_id = ${id}`).length;
  const { subscription } = newBrowser('/three');
  const { endpoint } = subscription;
  await server.api('POST', PATH, { ...as, body: subscription });
  assert.equal((await server.api('POST', '/users/me/webpush/test', as)).status, 204);
  status = 500;
  assert.equal((await server.api('POST', '/users/me/webpush/test', as)).status, 503);
  assert.equal(await count(), 1);
  status = 410;
  assert.equal((await server.api('POST', '/users/me/webpush/test', as)).status, 204);
  assert.equal(await count(), 0);
  status = 201;
  await server.api('POST', PATH, { ...as, body: subscription });
  const other = await insertPerson(server, 'quinn');
  const remove = (call: { token: string }) => server.api('DELETE', PATH, { ...call, body: { endpoint } });
  assert.equal((await remove(other)).status, 404);
  assert.equal((await remove(as)).status, 204);
  assert.equal(await count(), 0);
});

test('keeps the latest 20 browsers of a person, and rejects other addresses and keys', async () => {
  const { token, id } = await insertPerson(server, 'rita');
  const as = { token };
  for (let i = 0; i < 22; i++) await server.api('POST', PATH, { ...as, body: newBrowser(`/r${i}`).subscription });
  const kept = await server.services.sql`SELECT endpoint FROM webpush_subscriptions WHERE user_id = ${id}`;
  assert.equal(kept.length, 20);
  assert.ok(!kept.some(({ endpoint }) => endpoint === `${serviceUrl}/r0`));
  const { subscription } = newBrowser('/x');
  for (const bad of [
    { endpoint: 'http://push.example.com/x' },
    { endpoint: 'https://me@push.example.com/x' },
    { endpoint: 'file:///etc/passwd' },
    { p256dh_key: 'AAAA' },
    { auth_key: '' },
  ])
    assert.equal((await server.api('POST', PATH, { ...as, body: { ...subscription, ...bad } })).status, 400);
});

test('a server without the option sends nothing to its own network', async () => {
  const strict = await startTestServer();
  try {
    const { token } = await insertPerson(strict, 'sam');
    const subscribe = (endpoint: string) =>
      strict.api<{ validations: object[] }>('POST', PATH, {
        token,
        body: { ...newBrowser('/inner').subscription, endpoint },
      });
    const rejected = await subscribe('https://127.0.0.1/x');
    assert.deepEqual(
      [rejected.status, rejected.body.validations],
      [400, [{ field: 'endpoint', detail: 'must be a public address' }]],
    );
    // a name is checked when the server connects
    assert.equal((await subscribe(`${serviceUrl}/inner`)).status, 204);
    const failed = await strict.api<{ detail: string }>('POST', '/users/me/webpush/test', { token });
    assert.equal(failed.status, 503);
    assert.match(failed.body.detail, /localhost: its address is not public/);
    assert.ok(!received.some(({ path }) => path === '/inner'));
  } finally {
    await strict.stop();
  }
});
