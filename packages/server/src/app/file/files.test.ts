import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { insertPerson, startTestServer, type TestServer, tarOf, uploadSource } from '@ropewalk/testkit';
import { unzipSync, zipSync } from 'fflate';
import { readTar, writeTar } from '../evaluate/archive.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

const text = (data: string) => new TextEncoder().encode(data);
const send = (type: string, data: Uint8Array) =>
  server.api<{ hash: string; message: string; detail: string }>('POST', '/files', { raw: { type, data } });

async function download(id: string, format = ''): Promise<Response> {
  return fetch(`${server.url}/api/v2/files/${id}${format}`, { headers: { 'Coder-Session-Token': server.adminToken } });
}

test('stores the same archive once: 201, then 200 with the same id', async () => {
  const tar = await tarOf({ 'main.tf': 'terraform {}' });
  const first = await send('application/x-tar', tar);
  assert.equal(first.status, 201);
  assert.match(first.body.hash, /^[0-9a-f-]{36}$/);
  const again = await send('application/x-tar', tar);
  assert.equal(again.status, 200);
  assert.equal(again.body.hash, first.body.hash);
  const back = await download(first.body.hash);
  assert.equal(back.headers.get('content-type'), 'application/x-tar');
  assert.deepEqual(Buffer.from(await back.arrayBuffer()), tar);
});

test('stores a zip as a tar, and returns it as a zip on request', async () => {
  const zip = zipSync({ 'main.tf': text('a'), 'modules/x/main.tf': text('b') });
  for (const type of ['application/zip', 'application/x-zip-compressed']) {
    const { status, body } = await send(type, zip);
    assert.ok(status === 201 || status === 200);
    const entries = await readTar(new Uint8Array(await (await download(body.hash)).arrayBuffer()));
    assert.deepEqual(
      entries.map(({ path, data }) => [path, Buffer.from(data).toString()]),
      [
        ['main.tf', 'a'],
        ['modules/x/main.tf', 'b'],
      ],
    );
    const zipped = await download(body.hash, '?format=zip');
    assert.equal(zipped.headers.get('content-type'), 'application/zip');
    assert.deepEqual(Object.keys(unzipSync(new Uint8Array(await zipped.arrayBuffer()))).sort(), [
      'main.tf',
      'modules/x/main.tf',
    ]);
  }
});

test('stores an archive without bytes, which has no files', async () => {
  const { status, body } = await send('application/x-tar', new Uint8Array(0));
  assert.equal(status, 201, JSON.stringify(body));
  assert.equal((await (await download(body.hash)).arrayBuffer()).byteLength, 0);
});

test('rejects archives that cannot be unpacked safely', async () => {
  const escaping = await writeTar([{ path: '../../etc/passwd', data: text('x'), mode: 0o644 }]);
  const cases: [string, Uint8Array][] = [
    ['application/x-tar', escaping],
    ['application/x-tar', text('no tar at all')],
    ['application/zip', zipSync({ '../up.tf': text('x') })],
    ['application/zip', zipSync({ 'C:\\up.tf': text('x') })],
    ['application/zip', text('no zip at all')],
    ['application/zip', zipSync({ 'main.tf': text('x'.repeat(500)) }).subarray(0, 60)],
    ['text/plain', text('x')],
  ];
  for (const [type, data] of cases) {
    const { status, body } = await send(type, data);
    assert.equal(status, 400, `${type} ${Buffer.from(data).toString('latin1', 0, 40)}: ${JSON.stringify(body)}`);
    assert.ok(body.detail);
  }
});

test('rejects more than 100 MiB, packed or unpacked', async () => {
  const bomb = zipSync({ 'main.tf': new Uint8Array(101 * 1024 * 1024) }, { level: 1 });
  assert.ok(bomb.length < 2 * 1024 * 1024);
  assert.equal((await send('application/zip', bomb)).status, 413);
  assert.equal((await send('application/x-tar', new Uint8Array(101 * 1024 * 1024))).status, 413);
});

test('returns files only to their uploaders and to template admins', async () => {
  const member = await insertPerson(server, 'member');
  const author = await insertPerson(server, 'author', ['template-admin']);
  const id = await uploadSource(server, 'resource', author.token);
  const get = (token: string | null) => server.api('GET', `/files/${id}`, { token });
  assert.equal((await get(author.token)).status, 200);
  assert.equal((await get(server.adminToken)).status, 200);
  assert.equal((await get(member.token)).status, 404);
  assert.equal((await get(null)).status, 401);
  assert.equal((await server.api('GET', '/files/nonsense')).status, 400);
  assert.equal((await server.api('GET', `/files/${id}?format=rar`)).status, 400);
  assert.equal((await server.api('GET', `/files/${crypto.randomUUID()}`)).status, 404);
});
