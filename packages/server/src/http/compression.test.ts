import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingHttpHeaders, request } from 'node:http';
import { after, before, test } from 'node:test';
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from 'node:zlib';
import { type RouteDef, type RouteKey, routes } from '@ropewalk/contract';
import { startTestServer, type TestServer } from '@ropewalk/testkit';
import { encodingFor, isCompressible, SECRETS } from './compression.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
  await server.services.sql`INSERT INTO users (username, email, login_type)
    SELECT 'person-' || n, 'person-' || n || '@example.com', 'none' FROM generate_series(1, 400) AS n`;
});
after(() => server.stop());

interface Received {
  status: number;
  headers: IncomingHttpHeaders;
  bytes: Buffer;
}

/** A client of the Internet behind a proxy, which reports it. */
const FAR = { 'x-forwarded-for': '8.8.8.8, 10.0.0.7' };

async function ask(path: string, headers: Record<string, string> = {}, method = 'GET', body = ''): Promise<Received> {
  const sent = request(`${server.url}/api/v2${path}`, {
    method,
    headers: { 'coder-session-token': server.adminToken, ...headers },
  });
  sent.end(body);
  const [answer] = await once(sent, 'response');
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk);
  return { status: answer.statusCode, headers: answer.headers, bytes: Buffer.concat(chunks) };
}

const plain = async (path: string) => (await ask(path)).bytes.toString();
const encodings = async (accepted: string, headers: Record<string, string> = FAR) =>
  (await ask('/users/roles', { ...headers, 'accept-encoding': accepted })).headers['content-encoding'];

test('compresses lists by the best encoding that a client accepts', async () => {
  const roles = await plain('/users/roles');
  assert.ok(roles.length > 4_000 && roles.length < 128 * 1_024);
  for (const [name, decode] of [
    ['zstd', zstdDecompressSync],
    ['br', brotliDecompressSync],
    ['gzip', gunzipSync],
  ] as const) {
    const { headers, bytes } = await ask('/users/roles', { ...FAR, 'accept-encoding': name });
    assert.equal(headers['content-encoding'], name);
    assert.equal(headers.vary, 'Accept-Encoding');
    assert.equal(headers['content-type'], 'application/json; charset=utf-8');
    assert.equal(headers['content-length'], String(bytes.length));
    assert.ok(bytes.length < roles.length / 4, name);
    assert.equal(decode(bytes).toString(), roles);
  }
  for (const [accepted, encoding] of [
    ['gzip, deflate, br, zstd', 'zstd'],
    ['gzip, deflate, br', 'br'],
    ['gzip;q=1, br;q=0.5, zstd;q=0.4', 'gzip'],
    ['zstd;q=0, br;q=0.001', 'br'],
    ['GZIP ; Q=0.8', 'gzip'],
    ['*', 'zstd'],
    ['zstd;q=0, *;q=0.1', 'br'],
    ['gzip;q=2, br;q=x', undefined],
    ['identity', undefined],
    ['deflate, gzip;q=0.000', undefined],
    ['', undefined],
  ] as const) {
    assert.equal(await encodings(accepted), encoding, accepted);
  }
});

test('compresses long answers, and those that concurrent requests share', async () => {
  const people = await plain('/users?limit=0');
  assert.ok(people.length > 128 * 1_024, String(people.length));
  const few = await plain('/users?limit=10');
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => ask('/users?limit=0', { ...FAR, 'accept-encoding': 'gzip' })),
  );
  for (const { status, headers, bytes } of answers) {
    assert.deepEqual([status, headers['content-encoding']], [200, 'gzip']);
    assert.equal(gunzipSync(bytes).toString(), people);
  }
  const lists = await Promise.all(
    Array.from({ length: 8 }, (_, i) =>
      ask('/users?limit=10', { ...FAR, 'accept-encoding': i % 2 ? 'br' : 'identity' }),
    ),
  );
  for (const { headers, bytes } of lists) {
    assert.equal((headers['content-encoding'] === 'br' ? brotliDecompressSync(bytes) : bytes).toString(), few);
  }
  assert.equal(lists.filter(({ headers }) => headers['content-encoding'] === 'br').length, 4);
});

test('goes on when clients leave before their compressed answer', async () => {
  const headers = { ...FAR, 'coder-session-token': server.adminToken, 'accept-encoding': 'gzip' };
  for (let i = 0; i < 20; i++) {
    const leaving = request(`${server.url}/api/v2/users?limit=0`, { headers });
    leaving.on('error', () => {}).end();
    await new Promise((resolve) => setTimeout(resolve, i / 2));
    leaving.destroy();
  }
  assert.equal(await encodings('gzip'), 'gzip');
});

test('does not compress on fast connections, or short answers', async () => {
  assert.equal(await encodings('gzip', {}), undefined);
  assert.equal(await encodings('gzip', { 'x-forwarded-for': '192.168.1.5, ::1' }), undefined);
  assert.equal((await ask('/users/roles', { 'accept-encoding': 'gzip' })).headers.vary, 'Accept-Encoding');
  const me = await ask('/users/me', { ...FAR, 'accept-encoding': 'gzip' });
  assert.deepEqual([me.headers['content-encoding'], me.headers.vary], [undefined, undefined]);
});

test('believes the connection, and what any proxy reports', () => {
  const raw = {} as never;
  const encoding = (address: string, headers: Record<string, string> = {}) =>
    encodingFor({ headers: { ...headers, 'accept-encoding': 'gzip' }, raw }, () => address);
  assert.equal(encoding('9.9.9.9'), 'gzip');
  assert.equal(encoding('2606:4700::1111'), 'gzip');
  for (const address of ['127.0.0.1', '::1', '10.1.2.3', '172.20.0.2', 'fd00::1', '']) {
    assert.equal(encoding(address), undefined, address);
    assert.equal(encoding(address, { 'x-forwarded-for': 'unknown' }), undefined);
    assert.equal(encoding(address, { 'x-forwarded-for': '1.1.1.1' }), 'gzip');
  }
});

test('answers HEAD with the headers of GET', async () => {
  const headers = { ...FAR, 'accept-encoding': 'br' };
  const [get, head] = [await ask('/users/roles', headers), await ask('/users/roles', headers, 'HEAD')];
  assert.equal(head.bytes.length, 0);
  for (const name of ['content-encoding', 'content-length', 'content-type', 'vary'])
    assert.equal(head.headers[name], get.headers[name], name);
});

test('leaves ranges, errors and answers to writes alone', async () => {
  const accept = { ...FAR, 'accept-encoding': 'gzip' };
  const part = await ask('/users/roles', { ...accept, range: 'bytes=0-9' });
  assert.deepEqual([part.status, part.headers['content-range']], [200, undefined]);
  assert.equal(gunzipSync(part.bytes).toString(), await plain('/users/roles'));
  const missing = await ask('/users/nobody', accept);
  assert.deepEqual([missing.status, missing.headers['content-encoding']], [404, undefined]);
  const key = await ask('/users/me/keys', accept, 'POST');
  assert.deepEqual([key.status, key.headers['content-encoding']], [201, undefined]);
  const signIn = JSON.stringify({ email: 'admin@example.com', password: 'correct horse battery' });
  const session = await ask('/users/login', { ...accept, 'content-type': 'application/json' }, 'POST', signIn);
  assert.deepEqual([session.status, session.headers['content-encoding']], [201, undefined]);
});

test('compresses nothing that contains a secret, and nothing for pages of other origins', async () => {
  const cookie = `coder_session_token=${server.adminToken}`;
  for (const site of ['cross-site', 'same-site', '']) {
    assert.equal(await encodings('gzip', { ...FAR, 'sec-fetch-site': site }), undefined, site);
    assert.equal(await encodings('gzip', { ...FAR, cookie, 'sec-fetch-site': site }), undefined, site);
  }
  for (const site of ['same-origin', 'none'])
    assert.equal(await encodings('gzip', { ...FAR, cookie, 'sec-fetch-site': site }), 'gzip', site);
  assert.equal(await encodings('gzip', { ...FAR, cookie }), undefined, 'an old browser');
  const config = await ask('/deployment/config', { ...FAR, 'accept-encoding': 'gzip' });
  assert.deepEqual(
    [config.status, config.headers['content-encoding'], config.headers.vary],
    [200, undefined, undefined],
  );
});

test('hides small differences in the length of compressed answers', async () => {
  const lengths = new Set<number>();
  for (let i = 0; i < 20; i++) {
    const { headers } = await ask('/users/roles', { ...FAR, 'accept-encoding': 'gzip' });
    lengths.add(`${headers['x-padding']}`.length);
  }
  assert.ok(lengths.size > 5, [...lengths].join());
  assert.equal((await ask('/users/roles')).headers['x-padding'], undefined);
});

interface Schema {
  type?: string;
  properties?: Record<string, Schema>;
  patternProperties?: Record<string, Schema>;
  items?: Schema;
  anyOf?: Schema[];
}

/** The paths of all strings in answers of this shape. Items of lists and values of maps have the path of the list or the map. */
function strings({ type, properties, patternProperties, items, anyOf }: Schema, path = ''): string[] {
  const inside = [...Object.values(patternProperties ?? {}), ...(items ? [items] : []), ...(anyOf ?? [])];
  return [
    ...(type === 'string' ? [path] : []),
    ...Object.entries(properties ?? {}).flatMap(([name, field]) => strings(field, `${path}.${name}`)),
    ...inside.flatMap((one) => strings(one, path)),
  ];
}

test('knows every route whose answer contains a secret', () => {
  // names, addresses, and what everybody who may read the object may know
  const HARMLESS =
    /(^|\.)(token_name|key_name|key_id|public_key|metadata\.(key|value)|(options|values|Parameters)\.[vV]alue|default_value|endpoints\.\w+|key)$/;
  // may contain secrets of its owner. Long lists of workspaces have it, so that they rely on the other rules of decision 0084
  const ACCEPTED = /\.environment_variables$/;
  const suspect = (def: RouteDef) =>
    Object.values(def.responses)
      .flatMap((schema) => (typeof schema === 'symbol' ? [] : strings(schema as Schema)))
      .filter((field) =>
        /(secret|token|password|private|credential|key|value|environment|device_code)[^.]*$/i.test(field),
      )
      .filter((field) => !HARMLESS.test(field) && !ACCEPTED.test(field));
  const found = (Object.keys(routes) as RouteKey[]).filter((key) => {
    const def: RouteDef = routes[key];
    return key.startsWith('GET ') && def.auth === 'session' && def.stream === undefined && suspect(def).length > 0;
  });
  assert.deepEqual(found.sort(), [...SECRETS].sort());
  assert.deepEqual(
    (Object.keys(routes) as RouteKey[]).filter((key) => isCompressible(key, routes[key]) && !key.startsWith('GET ')),
    [],
  );
});
