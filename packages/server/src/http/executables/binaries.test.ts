import assert from 'node:assert/strict';
import { createHash, type Hash } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { gunzipSync, zstdDecompressSync } from 'node:zlib';
import { silentLogger } from '@ropewalk/kit';
import { appendFiles } from '@ropewalk/kit/appended-files';
import { fastify } from 'fastify';
import { binaryRoutes, describeExecutables } from './binaries.ts';

test('identifies executables by their content, and compresses each once for clients on other machines', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'binaries-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const file = join(dir, 'coder');
  const content = Buffer.alloc(3_000_000, 'an executable, say; ');
  writeFileSync(file, content);
  writeFileSync(join(dir, 'server.js'), 'what only servers need');
  appendFiles(file, { 'server.js': join(dir, 'server.js') });
  const app = fastify();
  const find = async (os: string, arch: string) => (os === 'linux' && arch === 'amd64' ? file : undefined);
  const signer = {
    publicKey: () => assert.fail('nobody asks for it'),
    sign: async (hash: Hash) => `signature of ${hash.digest('hex')}\n`,
  };
  binaryRoutes(app, { describe: describeExecutables(find), cacheDir: join(dir, 'cache'), signer, log: silentLogger });
  const get = (headers: Record<string, string> = {}, remoteAddress = '10.1.2.3', url = '/bin/coder-linux-amd64') =>
    app.inject({ url, headers, remoteAddress });

  const plain = await get();
  assert.equal(plain.statusCode, 200);
  assert.ok(plain.rawPayload.equals(content));
  assert.equal(plain.headers['content-length'], String(content.length));
  const etag = String(plain.headers['etag']);
  assert.match(etag, /^"[0-9a-f]{40}"$/);
  for (const sent of [etag, `W/${etag}`, `"other", ${etag}`]) {
    const same = await get({ 'if-none-match': sent });
    assert.equal(same.statusCode, 304, sent);
    assert.equal(same.rawPayload.length, 0);
  }

  const gzip = { 'accept-encoding': 'gzip, deflate' };
  const answers = await Promise.all([get(gzip), get(gzip), get(gzip, '192.168.0.9')]);
  for (const answer of answers) {
    assert.equal(answer.headers['content-encoding'], 'gzip');
    assert.equal(answer.headers['x-original-content-length'], String(content.length));
    assert.equal(answer.headers['content-length'], String(answer.rawPayload.length));
    assert.ok(gunzipSync(answer.rawPayload).equals(content));
  }
  assert.equal(readdirSync(join(dir, 'cache/bin')).length, 1);
  assert.equal((await get(gzip, '127.0.0.1')).headers['content-encoding'], undefined);

  const zstd = await get({ 'accept-encoding': 'deflate, gzip, zstd' });
  assert.equal(zstd.headers['content-encoding'], 'zstd');
  assert.ok(zstdDecompressSync(zstd.rawPayload).equals(content));
  assert.equal((await get({ 'accept-encoding': 'zstd;q=0, gzip' })).headers['content-encoding'], 'gzip');
  assert.equal((await get({ 'accept-encoding': 'zstd;q=0.0' })).headers['content-encoding'], undefined);
  const tags = [plain, answers[0]!, zstd].map(({ headers }) => String(headers['etag']));
  assert.equal(new Set(tags).size, 3, 'the bytes of one do not continue those of another');
  for (const tag of tags) {
    const same = await get({ 'accept-encoding': 'zstd', 'if-none-match': tag });
    assert.deepEqual([same.statusCode, same.headers['etag']], [304, tag]);
  }

  const part = async (headers: Record<string, string>) => {
    const { statusCode, headers: answered, rawPayload } = await get({ 'accept-encoding': 'gzip', ...headers });
    return [statusCode, answered['content-range'], rawPayload.equals(content) ? 'all' : rawPayload.toString()];
  };
  const text = (from: number, to?: number) => content.subarray(from, to).toString();
  const size = content.length;
  assert.deepEqual(await part({ range: 'bytes=3-9' }), [206, `bytes 3-9/${size}`, text(3, 10)]);
  const tail = [206, `bytes ${size - 5}-${size - 1}/${size}`, text(size - 5)];
  assert.deepEqual(await part({ range: `bytes=${size - 5}-` }), tail);
  assert.deepEqual(await part({ range: 'bytes=-5' }), tail);
  assert.deepEqual(await part({ range: `bytes=${size - 5}-${size + 5}`, 'if-range': etag }), tail);
  assert.deepEqual(await part({ range: 'bytes=3-9', 'if-range': '"other"' }), [200, undefined, 'all']);
  for (const range of ['bytes=9-3', 'bytes=-', 'bytes=0-1,3-4', 'items=0-1'])
    assert.deepEqual(await part({ range }), [200, undefined, 'all'], range);
  for (const range of [`bytes=${size}-`, 'bytes=-0'])
    assert.deepEqual(await part({ range }), [416, `bytes */${size}`, ''], range);
  const head = await app.inject({ method: 'HEAD', url: '/bin/coder-linux-amd64', remoteAddress: '10.1.2.3' });
  assert.deepEqual([head.statusCode, head.headers['content-length'], head.rawPayload.length], [200, String(size), 0]);

  const sum = createHash('sha256').update(content).digest('hex');
  for (const attempt of [1, 2]) {
    const signature = await get({}, '10.1.2.3', '/bin/coder-linux-amd64.asc');
    assert.deepEqual([signature.statusCode, signature.body], [200, `signature of ${sum}\n`], String(attempt));
    assert.equal(signature.headers['content-type'], 'application/pgp-signature');
  }
  const signature = await get({}, '10.1.2.3', '/bin/coder-linux-amd64.asc');
  const known = { 'if-none-match': signature.headers['etag'] as string };
  assert.equal((await get(known, '10.1.2.3', '/bin/coder-linux-amd64.asc')).statusCode, 304);
  assert.notEqual((await get({}, '10.1.2.3', '/bin/coder-linux-mips.asc')).statusCode, 200);

  writeFileSync(file, `${content}!`);
  const next = await get({ 'if-none-match': etag });
  assert.equal(next.statusCode, 200, 'a new one is another');
  assert.notEqual(next.headers['etag'], etag);
  assert.equal((await get(known, '10.1.2.3', '/bin/coder-linux-amd64.asc')).statusCode, 200);

  assert.equal((await get({}, '10.1.2.3', '/bin/coder_linux_amd64')).statusCode, 200, 'underscores are hyphens');
  for (const name of ['coder-linux-mips', 'passwd', '..%2fcoder', 'coder-linux-amd64%00']) {
    assert.notEqual((await get({}, '10.1.2.3', `/bin/${name}`)).statusCode, 200, name);
  }
});
