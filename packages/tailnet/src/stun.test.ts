import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seededRandom } from '@ropewalk/wire/testing/sockets';
import { formatEndpoint, parseEndpoint } from './address.ts';
import { decodeStunRequest, decodeStunResponse, encodeStunRequest, encodeStunResponse, isStun } from './stun.ts';
import { fromHex, hex, vectors } from './testing/vectors.ts';

const recorded = vectors<Record<'request' | 'responseV4' | 'responseV6', string>>('stun');
const tx = fromHex('0102030405060708090a0b0c');

test('the recorded request and responses decode, and encode to the same bytes', () => {
  assert.equal(hex(encodeStunRequest(tx)), recorded.request);
  assert.equal(hex(decodeStunRequest(fromHex(recorded.request))), hex(tx));
  for (const response of [recorded.responseV4, recorded.responseV6]) {
    const decoded = decodeStunResponse(fromHex(response))!;
    assert.equal(hex(decoded.tx), hex(tx));
    assert.equal(hex(encodeStunResponse(tx, decoded.source)), response);
    assert.equal(isStun(fromHex(response)), true);
  }
  assert.match(formatEndpoint(decodeStunResponse(fromHex(recorded.responseV4))!.source), /^192\.0\.2\.7:\d+$/);
  assert.match(formatEndpoint(decodeStunResponse(fromHex(recorded.responseV6))!.source), /^\[2001:db8::7\]:\d+$/);
});

test('addresses of both families are read back', () => {
  for (const text of ['203.0.113.9:65535', '[2001:db8::1]:1']) {
    const { source } = decodeStunResponse(encodeStunResponse(tx, parseEndpoint(text)!))!;
    assert.equal(formatEndpoint(source), text);
  }
});

test('reads a plain address if there is no masked one, and prefers the masked one', () => {
  const plain = '0001000800010050c0000201';
  const header = (bytes: number) => `0101${bytes.toString(16).padStart(4, '0')}2112a442${hex(tx)}`;
  assert.equal(formatEndpoint(decodeStunResponse(fromHex(`${header(12)}${plain}`))!.source), '192.0.2.1:80');
  const masked = recorded.responseV4.slice(40);
  const both = decodeStunResponse(fromHex(`${header(24)}${plain}${masked}`))!;
  assert.deepEqual(both, decodeStunResponse(fromHex(recorded.responseV4)));
});

test('reads attributes of odd length, and answers only requests with a correct fingerprint', () => {
  const odd = `0101001c2112a442${hex(tx)}8022000961626364656667686900${'0000'}${recorded.responseV4.slice(40)}`;
  assert.ok(decodeStunResponse(fromHex(odd)));
  const beyond = fromHex(recorded.responseV4);
  beyond[23] = 12; // the attribute ends after the packet
  assert.equal(decodeStunResponse(beyond), undefined);
  const bare = `000100002112a442${hex(tx)}`;
  assert.equal(decodeStunRequest(fromHex(bare)), undefined);
  const wrong = fromHex(recorded.request);
  wrong[wrong.length - 1]! ^= 1;
  assert.equal(decodeStunRequest(wrong), undefined);
  assert.equal(decodeStunRequest(fromHex(recorded.responseV4)), undefined);
  assert.equal(decodeStunResponse(fromHex(recorded.request)), undefined);
});

test('arbitrary, damaged and truncated packets are ignored', () => {
  for (let seed = 1; seed <= 2_000; seed++) {
    const random = seededRandom(seed);
    const packet = fromHex(Object.values(recorded)[random(3)]!);
    for (let flips = 1 + random(3); flips > 0; flips--) packet[random(packet.length)]! ^= 1 << random(8);
    decodeStunResponse(packet);
    const cut = packet.subarray(0, random(packet.length));
    assert.equal(decodeStunRequest(cut), undefined, `seed ${seed}`);
    assert.equal(decodeStunResponse(cut), undefined, `seed ${seed}`);
    const any = Buffer.from(Array.from({ length: random(80) }, () => random(256)));
    assert.equal(decodeStunResponse(any), undefined, `seed ${seed}`);
  }
});
