import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { createLogger } from '@ropewalk/kit';
import { freshDatabase } from '@ropewalk/testkit/postgres';
import { type Cloud, cloudPasswords } from './cloud-token.ts';
import { connect, type Sql } from './connect.ts';
import { passwordSource } from './password.ts';

// The endpoints as Google and Microsoft document them, and a database whose user has the token as the password.

const TOKEN = `ya29.${'a'.repeat(1_500)}`;
let endpoint: Server;
let host: string;
let database: { url: string; drop(): Promise<void> };
let admin: Sql;
const role = `robot_${crypto.randomUUID().slice(0, 8)}`;
const asked: { request: IncomingMessage; body: string }[] = [];
/** The answer of the endpoint. */
let answer: (asked: IncomingMessage) => [status: number, body: unknown];
before(async () => {
  endpoint = createServer(async (request, response) => {
    asked.push({ request, body: Buffer.concat(await request.toArray()).toString() });
    const [status, body] = answer(request);
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  endpoint.listen(0, '127.0.0.1');
  await once(endpoint, 'listening');
  host = `127.0.0.1:${(endpoint.address() as AddressInfo).port}`;
  database = await freshDatabase();
  admin = connect(database.url, { max: 1 });
  await admin.unsafe(`CREATE ROLE ${role} LOGIN PASSWORD '${TOKEN}'`);
});
after(async () => {
  await admin.unsafe(`DROP ROLE ${role}`);
  await admin.end();
  await database.drop();
  endpoint.closeAllConnections();
  endpoint.close();
});
beforeEach(() => {
  asked.length = 0;
});

let now = 0;
const clock = { now: () => new Date(now), monotonic: () => now, sleep: async () => {} };
const databaseUrl = () => {
  const url = new URL(database.url);
  url.username = role;
  url.password = '';
  // a socket's folder has no host
  if (url.hostname === '') url.hostname = 'localhost';
  return url.href;
};

async function signsIn(cloud: Cloud, env: Record<string, string>): Promise<void> {
  const sql = connect(databaseUrl(), { max: 2, password: cloudPasswords(cloud, databaseUrl(), clock, env) });
  try {
    const users = await Promise.all([sql`SELECT current_user AS me`, sql`SELECT current_user AS me`]);
    assert.deepEqual(
      users.map(([row]) => row!['me']),
      [role, role],
    );
  } finally {
    await sql.end();
  }
}

test('signs in with the token of a service account of Google Cloud', async () => {
  answer = ({ headers }) =>
    headers['metadata-flavor'] === 'Google'
      ? [200, { access_token: TOKEN, expires_in: 3_599, token_type: 'Bearer' }]
      : [403, 'Missing Metadata-Flavor:Google header.'];
  await signsIn('gcpiam', { GCE_METADATA_HOST: host });
  assert.equal(asked.length, 1, 'connections share a token');
  const url = new URL(asked[0]!.request.url!, `http://${host}`);
  assert.equal(url.pathname, '/computeMetadata/v1/instance/service-accounts/default/token');
  assert.equal(url.searchParams.get('scopes'), 'https://www.googleapis.com/auth/sqlservice.login');
});

test('signs in with the token of a managed identity of Azure', async () => {
  const resource = 'https://ossrdbms-aad.database.windows.net';
  answer = ({ headers }) =>
    headers['metadata'] === 'true' || headers['x-identity-header'] === 'a secret'
      ? [200, { access_token: TOKEN, expires_in: '86399', resource }]
      : [400, { error: 'bad_request' }];
  await signsIn('azureentra', { AZURE_POD_IDENTITY_AUTHORITY_HOST: `http://${host}`, AZURE_CLIENT_ID: 'mine' });
  await signsIn('azureentra', { IDENTITY_ENDPOINT: `http://${host}/msi/token`, IDENTITY_HEADER: 'a secret' });
  assert.deepEqual(
    asked.map(({ request }) => {
      const { pathname, searchParams } = new URL(request.url!, `http://${host}`);
      return [pathname, Object.fromEntries(searchParams)];
    }),
    [
      ['/metadata/identity/oauth2/token', { 'api-version': '2018-02-01', resource, client_id: 'mine' }],
      ['/msi/token', { 'api-version': '2019-08-01', resource }],
    ],
  );
});

test('signs in with the identity of a Kubernetes workload of Azure', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'azure-'));
  t.after(() => rmSync(dir, { recursive: true }));
  writeFileSync(join(dir, 'token'), 'signed by the cluster\n');
  answer = () => [200, { access_token: TOKEN, expires_in: 3_599, token_type: 'Bearer' }];
  await signsIn('azureentra', {
    AZURE_CLIENT_ID: 'mine',
    AZURE_TENANT_ID: 'acme',
    AZURE_FEDERATED_TOKEN_FILE: join(dir, 'token'),
    AZURE_AUTHORITY_HOST: `http://${host}/`,
  });
  assert.equal(asked[0]!.request.url, '/acme/oauth2/v2.0/token');
  const values = new URLSearchParams(asked[0]!.body);
  assert.equal(values.get('client_assertion'), 'signed by the cluster');
  assert.equal(values.get('scope'), 'https://ossrdbms-aad.database.windows.net/.default');
  assert.equal(values.get('grant_type'), 'client_credentials');
});

test('renews a token before it expires, and asks again after a failure', async () => {
  const passwords = cloudPasswords('gcpiam', databaseUrl(), clock, { GCE_METADATA_HOST: host });
  answer = () => [500, 'starting'];
  await assert.rejects(passwords(), /status 500: "starting"/);
  answer = () => [200, { access_token: 'first', expires_in: 600 }];
  assert.equal(await passwords(), 'first');
  answer = () => [200, { access_token: 'second', expires_in: 600 }];
  now += 299_000;
  assert.equal(await passwords(), 'first');
  now += 1_000;
  assert.equal(await passwords(), 'second');
  answer = () => [200, {}];
  now += 300_000;
  await assert.rejects(passwords(), /gave no access_token/);
});

test('rejects a wrong token, and a URL without a user', async () => {
  const log = createLogger({ sinks: [] });
  process.env['GCE_METADATA_HOST'] = host;
  try {
    answer = () => [200, { access_token: 'of somebody else', expires_in: 600 }];
    const sql = connect(databaseUrl(), { max: 1, password: (await passwordSource(databaseUrl(), 'gcpiam', log))! });
    await assert.rejects(sql`SELECT 1`, /password authentication failed/);
    await sql.end();
  } finally {
    delete process.env['GCE_METADATA_HOST'];
  }
  await assert.rejects(passwordSource('', 'azureentra', log), /azureentra needs --postgres-url/);
});
