import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seededRandom } from '@ropewalk/wire/testing/sockets';
import { formatEndpoint, parseEndpoint } from './address.ts';
import { Box } from './box.ts';
import {
  type DiscoMessage,
  discoSender,
  isDisco,
  MAX_ENDPOINTS,
  openDisco,
  relayEndpoint,
  relayRegionOf,
  sealDisco,
} from './disco.ts';
import { formatDiscoKey, KeyPair, parseNodeKey } from './keys.ts';
import { fromHex, hex, vectors } from './testing/vectors.ts';

interface Packet {
  clear: string;
  packet: string;
}
const recorded = vectors<
  Record<'aPrivate' | 'aPublic' | 'bPrivate' | 'bPublic' | 'nodeKeyInPing', string> &
    Record<'ping' | 'pongV4' | 'pongV6' | 'pongViaDerp999' | 'callMeMaybe' | 'callMeMaybeEmpty', Packet>
>('disco');
const a = KeyPair.fromPrivateKey(fromHex(recorded.aPrivate));
const b = KeyPair.fromPrivateKey(fromHex(recorded.bPrivate));
const fromA = Box.between(a, b.publicKey)!;
const atB = Box.between(b, a.publicKey)!;

const tx = fromHex('0102030405060708090a0b0c');
const endpoint = (text: string) => parseEndpoint(text)!;
const messages: [keyof typeof recorded, DiscoMessage][] = [
  ['ping', { type: 'ping', tx, nodeKey: parseNodeKey(recorded.nodeKeyInPing)! }],
  ['pongV4', { type: 'pong', tx, source: endpoint('192.0.2.7:41641') }],
  ['pongV6', { type: 'pong', tx, source: endpoint('[2001:db8::7]:41641') }],
  ['pongViaDerp999', { type: 'pong', tx, source: relayEndpoint(999) }],
  ['callMeMaybe', { type: 'callMeMaybe', endpoints: ['192.0.2.7:41641', '[2001:db8::7]:5'].map(endpoint) }],
  ['callMeMaybeEmpty', { type: 'callMeMaybe', endpoints: [] }],
];

for (const [name, message] of messages)
  test(`${name} opens, and seals to the recorded bytes`, () => {
    const packet = fromHex((recorded[name] as Packet).packet);
    assert.equal(isDisco(packet), true);
    assert.equal(formatDiscoKey(discoSender(packet)!), recorded.aPublic);
    assert.deepEqual(openDisco(atB, packet), message);
    assert.equal(hex(sealDisco(a.publicKey, fromA, message, packet.subarray(38, 62))), hex(packet));
  });

test('a pong over the relay names its region, and a real address has none', () => {
  assert.equal(formatEndpoint(relayEndpoint(999)), '127.3.3.40:999');
  assert.equal(relayRegionOf(relayEndpoint(7)), 7);
  assert.equal(relayRegionOf(endpoint('127.0.0.1:7')), undefined);
});

const sealed = (clear: string) => Buffer.concat([fromHex('5453f09f92ac'), a.publicKey, fromA.seal(fromHex(clear))]);

test('pings without padding or without a node key are read', () => {
  assert.deepEqual(openDisco(atB, sealed(`0100${hex(tx)}`)), { type: 'ping', tx });
  const nodeKey = a.publicKey;
  assert.deepEqual(openDisco(atB, sealed(`0100${hex(tx)}${hex(nodeKey)}`)), { type: 'ping', tx, nodeKey });
});

test('malformed messages are ignored', () => {
  for (const clear of ['', '01', '0100', '01000102', `0200${hex(tx)}`, '030001', '0400', `ff00${hex(tx)}`])
    assert.equal(openDisco(atB, sealed(clear)), undefined, clear);
});

test('only the first endpoints of a long list are read', () => {
  const endpoints = Array.from({ length: MAX_ENDPOINTS + 10 }, (_, i) => endpoint(`192.0.2.1:${i}`));
  const packet = sealDisco(a.publicKey, fromA, { type: 'callMeMaybe', endpoints });
  assert.deepEqual(openDisco(atB, packet), { type: 'callMeMaybe', endpoints: endpoints.slice(0, MAX_ENDPOINTS) });
});

test('arbitrary, damaged and truncated packets are ignored', () => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = seededRandom(seed);
    const packet = fromHex((recorded[messages[random(messages.length)]![0]] as Packet).packet);
    packet[38 + random(packet.length - 38)]! ^= 1 << random(8);
    assert.equal(openDisco(atB, packet), undefined, `seed ${seed}`);
    assert.equal(openDisco(atB, packet.subarray(0, random(packet.length))), undefined, `seed ${seed}`);
    // what a peer with a valid key may send
    const clear = Buffer.from(Array.from({ length: random(120) }, () => random(256)));
    if (clear.length > 0) clear[0] = random(5);
    const message = openDisco(atB, Buffer.concat([packet.subarray(0, 38), fromA.seal(clear)]));
    if (message && message.type !== 'callMeMaybe') assert.equal(message.tx.length, 12);
  }
  assert.equal(discoSender(Buffer.from('x')), undefined);
});
