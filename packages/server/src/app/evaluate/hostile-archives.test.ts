import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { Readable } from 'node:stream';
import { after, before, test } from 'node:test';
import { deflateRawSync } from 'node:zlib';
import { heldUp, startTestServer, type TestServer } from '@ropewalk/testkit';
import { zipSync } from 'fflate';
import { writeTar } from './archive.ts';

/** The longest time that an archive may block the server. One zip of 1 MB took 9 s. */
const MAX_MS = 100;
const MIB = 1024 * 1024;

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

interface Sent {
  status: number;
  message: string;
  hash: string;
  longestMs: number;
}

/** In pieces: a client that writes it in one piece would itself block the event loop that it shares with the server. */
async function send(type: 'zip' | 'x-tar', data: Uint8Array): Promise<Sent> {
  const { value, longestMs } = await heldUp(async () => {
    const sending = request(`${server.url}/api/v2/files`, {
      method: 'POST',
      headers: {
        'coder-session-token': server.adminToken,
        'content-type': `application/${type}`,
        'content-length': data.length,
      },
    });
    const pieces = Array.from({ length: Math.ceil(data.length / MIB) }, (_, i) =>
      data.subarray(i * MIB, (i + 1) * MIB),
    );
    Readable.from(pieces).pipe(sending);
    const [response] = (await once(sending, 'response')) as [IncomingMessage];
    const body = JSON.parse(Buffer.concat(await response.toArray()).toString()) as Record<string, string>;
    return { status: response.statusCode!, body };
  });
  const { status, body } = value;
  return { status, message: `${body['message']} ${body['detail'] ?? ''}`, hash: body['hash']!, longestMs };
}

/** A zip of one file that claims the size `claimed`. */
function zipThatClaims(deflated: Buffer, claimed: number): Buffer {
  const zip = Buffer.from(zipSync({ 'main.tf': new Uint8Array(0) }, { level: 0 }));
  const [local, central] = [0, zip.indexOf(Buffer.from('PK\x01\x02', 'latin1'))];
  const end = zip.indexOf(Buffer.from('PK\x05\x06', 'latin1'));
  zip.writeUInt16LE(8, local + 8);
  zip.writeUInt16LE(8, central + 10);
  for (const at of [local + 18, central + 20]) {
    zip.writeUInt32LE(deflated.length, at);
    zip.writeUInt32LE(claimed, at + 4);
  }
  zip.writeUInt32LE(central + deflated.length, end + 16);
  return Buffer.concat([zip.subarray(0, central), deflated, zip.subarray(central)]);
}

const threads = () => readdirSync('/proc/self/task').length;

test('stops unpacking a zip that contains more than it claims, and blocks nothing', async () => {
  const bomb = deflateRawSync(Buffer.alloc(200 * MIB), { level: 1 });
  for (const claimed of [1_000, 99 * MIB]) {
    const { status, message, longestMs } = await send('zip', zipThatClaims(bomb, claimed));
    assert.equal(status, 400);
    assert.match(message, /"main\.tf" has a different size than the archive states/);
    assert.ok(longestMs < MAX_MS, `${longestMs} ms`);
  }
});

test('unpacks a zip of many files in one thread', async () => {
  const content = new Uint8Array(MIB - 1);
  const files = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`f${i}.tf`, content]));
  const zip = zipSync(files);
  assert.ok(zip.length < 200_000);
  await send('zip', zipSync({ 'main.tf': new Uint8Array(1) }));
  const atRest = threads();
  let most = 0;
  const timer = setInterval(() => {
    most = Math.max(most, threads());
  }, 1);
  const { status, longestMs } = await send('zip', zip);
  clearInterval(timer);
  assert.equal(status, 201);
  assert.ok(most <= atRest + 2, `${most - atRest} threads more`);
  assert.ok(longestMs < MAX_MS, `${longestMs} ms`);
});

test('blocks nothing while it stores, reads and zips large archives', async () => {
  const tars = {
    large: await writeTar([{ path: 'a.bin', data: Buffer.alloc(32 * MIB, 'some text. '), mode: 0o644 }]),
    many: await writeTar(
      Array.from({ length: 9_999 }, (_, i) => ({ path: `f${i}`, data: Buffer.alloc(1), mode: 0o644 })),
    ),
  };
  for (const [name, data] of Object.entries(tars)) {
    const { status, hash, longestMs } = await send('x-tar', data);
    assert.equal(status, 201);
    assert.ok(longestMs < MAX_MS, `${name}: ${longestMs} ms`);
    for (const format of ['', '?format=zip']) {
      const got = await heldUp(async () => {
        const response = await fetch(`${server.url}/api/v2/files/${hash}${format}`, {
          headers: { 'Coder-Session-Token': server.adminToken },
        });
        assert.equal(response.status, 200);
        for await (const _ of response.body!);
      });
      assert.ok(got.longestMs < MAX_MS, `${name}${format}: ${got.longestMs} ms`);
    }
  }
});

test('rejects too many files and too long paths in an archive, also in a zip', async () => {
  const many = Object.fromEntries(Array.from({ length: 10_001 }, (_, i) => [`${i}`, new Uint8Array(0)]));
  assert.equal((await send('zip', zipSync(many, { level: 0 }))).status, 413);
  const long = `${'d/'.repeat(600)}main.tf`;
  assert.equal((await send('zip', zipSync({ [long]: new Uint8Array(1) }))).status, 400);
  assert.equal(
    (await send('x-tar', await writeTar([{ path: long, data: Buffer.from('x'), mode: 0o644 }]))).status,
    400,
  );
});
