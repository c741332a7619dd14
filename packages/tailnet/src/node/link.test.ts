import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseAddress } from '../address.ts';
import { MAX_PACKET_BYTES, MTU } from '../wireguard/session.ts';
import { type Link, linkBytes } from './link.ts';

const link = (address: string, prefixBits: number, mtu: number | undefined): Link => ({
  address: parseAddress(address)!,
  prefixBits,
  mtu,
});
const bytes = (address: string, links: Link[]) => linkBytes(parseAddress(address)!, links);
const LINKS = [link('10.0.0.5', 96 + 24, 9_001), link('172.17.0.1', 96 + 16, 1_500), link('fd00::5', 64, 1_500)];

test('packets are as long as the interface of the network allows, with the headers around them', () => {
  assert.equal(bytes('10.0.0.9', LINKS), MAX_PACKET_BYTES);
  // 1,500 - 20 - 8 - 32, and 1,500 - 40 - 8 - 32
  assert.equal(bytes('172.17.3.4', LINKS), 1_440);
  assert.equal(bytes('fd00::9', LINKS), 1_408);
});

test('any interface may lead to other networks, so the narrowest one decides', () => {
  assert.equal(bytes('192.0.2.1', LINKS), 1_440);
  assert.equal(bytes('192.0.2.1', LINKS.slice(0, 1)), MAX_PACKET_BYTES);
  assert.equal(bytes('192.0.2.1', [link('10.0.0.5', 96 + 24, 1_300)]), MTU);
});

test('packets for this machine do not leave it, and an unknown interface carries the usual ones', () => {
  assert.equal(bytes('127.0.0.1', LINKS), MAX_PACKET_BYTES);
  assert.equal(bytes('::1', []), MAX_PACKET_BYTES);
  assert.equal(bytes('172.17.0.1', LINKS), MAX_PACKET_BYTES);
  assert.equal(bytes('10.0.0.9', [link('10.0.0.5', 96 + 24, undefined)]), MTU);
  assert.equal(bytes('192.0.2.1', []), MTU, 'no interface');
  assert.ok(linkBytes(parseAddress('192.0.2.1')!) >= MTU, 'of this machine');
});
