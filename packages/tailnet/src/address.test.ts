import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seededRandom } from '@ropewalk/wire/testing/sockets';
import {
  addressOf,
  formatAddress,
  formatEndpoint,
  formatHostPrefix,
  LEGACY_AGENT_ADDRESS,
  nodeIdOf,
  parseAddress,
  parseEndpoint,
  parseHostPrefix,
  randomAddress,
  SERVICE_PREFIX,
  TAILNET_PREFIX,
} from './address.ts';
import { fromHex, hex, vectors } from './testing/vectors.ts';

const recorded = vectors<{ uuid: string; tailscale: string; coder: string; nodeId: string }[]>('address');

test('addresses and node numbers of agents match the recorded ones', () => {
  assert.ok(recorded.length >= 5);
  for (const { uuid, tailscale, coder, nodeId } of recorded) {
    const id = fromHex(uuid.replaceAll('-', ''));
    assert.equal(formatAddress(addressOf(TAILNET_PREFIX, id)), tailscale);
    assert.equal(formatAddress(addressOf(SERVICE_PREFIX, id)), coder);
    assert.equal(nodeIdOf(id), BigInt(nodeId));
    assert.deepEqual(parseAddress(tailscale), addressOf(TAILNET_PREFIX, id));
    assert.deepEqual(parseHostPrefix(`${coder}/128`), addressOf(SERVICE_PREFIX, id));
  }
});

test('ids of another length are rejected', () => {
  assert.throws(() => addressOf(TAILNET_PREFIX, Buffer.alloc(15)), RangeError);
  assert.throws(() => nodeIdOf(Buffer.alloc(17)), RangeError);
  assert.throws(() => formatAddress(Buffer.alloc(4)), RangeError);
});

test('formats addresses canonically', () => {
  const texts = {
    '00000000000000000000000000000000': '::',
    '00000000000000000000000000000001': '::1',
    '20010db8000000000001000000000001': '2001:db8::1:0:0:1',
    '20010db8000100000001000000000001': '2001:db8:1:0:1::1',
    '00010002000300040005000600070000': '1:2:3:4:5:6:7:0',
    '00010000000000000000000000000000': '1::',
    '00000000000000000000ffffc0000207': '192.0.2.7',
  };
  for (const [bytes, text] of Object.entries(texts)) {
    assert.equal(formatAddress(fromHex(bytes)), text);
    assert.equal(hex(parseAddress(text)), bytes);
  }
  assert.equal(formatAddress(LEGACY_AGENT_ADDRESS), 'fd7a:115c:a1e0:49d6:b259:b7ac:b1b2:48f4');
  assert.equal(hex(parseAddress('::ffff:192.0.2.7')), '00000000000000000000ffffc0000207');
  assert.equal(hex(parseAddress('64:ff9b::192.0.2.7')), '0064ff9b0000000000000000c0000207');
});

test('any address has a text that parses to the same bytes', () => {
  const random = seededRandom(7);
  for (let i = 0; i < 500; i++) {
    const address = Buffer.from(Array.from({ length: 16 }, () => (random(2) ? 0 : random(256))));
    assert.equal(hex(parseAddress(formatAddress(address))), hex(address));
    const endpoint = { address, port: random(65_536) };
    assert.deepEqual(parseEndpoint(formatEndpoint(endpoint)), endpoint);
  }
});

test('rejects text that is not an address, a host prefix or an endpoint', () => {
  for (const text of ['', 'x', '1.2.3', '1.2.3.4.5', ':::', 'fe80::1%eth0', '1:2:3:4:5:6:7:8:9', '::1/128'])
    assert.equal(parseAddress(text), undefined, text);
  for (const text of ['::1', '::1/64', 'fd7a:115c:a1e0::/48', '/128', 'x/128'])
    assert.equal(parseHostPrefix(text), undefined, text);
  for (const text of ['::1:80', '[::1]', '1.2.3.4', '1.2.3.4:65536', '1.2.3.4:-1', '[1.2.3.4:5', 'a:1'])
    assert.equal(parseEndpoint(text), undefined, text);
});

test('random addresses have the prefix and the marks of a random UUID', () => {
  const address = randomAddress(TAILNET_PREFIX);
  assert.match(formatHostPrefix(address), /^fd7a:115c:a1e0:4[0-9a-f]{3}:[89ab][0-9a-f]{3}:.*\/128$/);
  assert.notDeepEqual(randomAddress(TAILNET_PREFIX), address);
});
