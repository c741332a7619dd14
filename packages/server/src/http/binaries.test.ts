import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { silentLogger } from '@ropewalk/kit';
import { fastify } from 'fastify';
import { binaryRoutes } from './binaries.ts';

test('identifies executables by their content, and compresses each once for clients on other machines', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'binaries-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const file = join(dir, 'coder');
  const content = Buffer.alloc(3_000_000, 'an executable, say; ');
  writeFileSync(file, content);
  const app = fastify();
  const find = async (os: string, arch: string) => (os === 'linux' && arch === 'amd64' ? file : undefined);
  binaryRoutes(app, { find, cacheDir: join(dir, 'cache'), log: silentLogger });
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

  writeFileSync(file, `${content}!`);
  const next = await get({ 'if-none-match': etag });
  assert.equal(next.statusCode, 200, 'a new one is another');
  assert.notEqual(next.headers['etag'], etag);

  assert.equal((await get({}, '10.1.2.3', '/bin/coder_linux_amd64')).statusCode, 200, 'underscores are hyphens');
  for (const name of ['coder-linux-mips', 'passwd', '..%2fcoder', 'coder-linux-amd64%00']) {
    assert.notEqual((await get({}, '10.1.2.3', `/bin/${name}`)).statusCode, 200, name);
  }
});
