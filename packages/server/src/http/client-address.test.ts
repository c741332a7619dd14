import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { test } from 'node:test';
import { createClientAddress } from './client-address.ts';

const request = (remoteAddress: string, headers: Record<string, string> = {}) =>
  ({ socket: { remoteAddress }, headers }) as unknown as IncomingMessage;
const addressWith = (proxyTrustedHeaders: string[], proxyTrustedOrigins: string[]) =>
  createClientAddress({ proxyTrustedHeaders, proxyTrustedOrigins });

test('believes a header on connections from a trusted proxy only', () => {
  const address = addressWith(['X-Forwarded-For', 'X-Real-Ip'], ['10.0.0.0/8', 'fd00::1']);
  const cases: [string, Record<string, string>, string][] = [
    ['10.1.2.3', { 'x-forwarded-for': '203.0.113.7' }, '203.0.113.7'],
    ['::ffff:10.1.2.3', { 'x-forwarded-for': '203.0.113.7' }, '203.0.113.7'],
    ['fd00::1', { 'x-real-ip': '2001:db8::9' }, '2001:db8::9'],
    // the client's own entries come before those of the proxies
    ['10.1.2.3', { 'x-forwarded-for': '198.51.100.1, 203.0.113.7, 10.9.9.9' }, '203.0.113.7'],
    ['10.1.2.3', { 'x-forwarded-for': '10.4.4.4' }, '10.4.4.4'],
    ['10.1.2.3', { 'x-forwarded-for': 'nonsense', 'x-real-ip': '203.0.113.8' }, '203.0.113.8'],
    ['10.1.2.3', {}, '10.1.2.3'],
    ['192.0.2.1', { 'x-forwarded-for': '203.0.113.7' }, '192.0.2.1'],
  ];
  for (const [peer, headers, client] of cases) assert.equal(address(request(peer, headers)), client, peer);
});

test('believes no header without trusted origins', () => {
  const address = addressWith(['X-Forwarded-For'], []);
  assert.equal(address(request('::ffff:127.0.0.1', { 'x-forwarded-for': '203.0.113.7' })), '127.0.0.1');
});

test('rejects an origin that is neither an address nor a range', () => {
  for (const origin of ['proxy.internal', '10.0.0.0/33', '300.1.1.1', '10.0.0.0/']) {
    assert.throws(() => addressWith(['X-Forwarded-For'], [origin]), /--proxy-trusted-origins/, origin);
  }
});
