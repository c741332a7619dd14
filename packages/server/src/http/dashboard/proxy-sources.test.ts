import assert from 'node:assert/strict';
import { test } from 'node:test';
import { proxySources } from './proxy-sources.ts';

test('permits connections to proxies, and frames with their apps', () => {
  assert.deepEqual(
    proxySources([
      { url: 'https://eu.example.com:8443', wildcard_hostname: '*--apps.eu.example.com:8443' },
      { url: 'http://[::1]:3001', wildcard_hostname: '' },
    ]),
    {
      connect: ['https://eu.example.com:8443', 'wss://eu.example.com:8443', 'http://[::1]:3001', 'ws://[::1]:3001'],
      frame: ['https://*.eu.example.com:8443'],
    },
  );
});

test('leaves out hosts with which a proxy would change the policy', () => {
  for (const host of ["a;script-src'unsafe-inline'", 'a,b', "'none'", '*', '*.com', 'a%3bb', '$']) {
    const url = `https://${host}`;
    if (!URL.canParse(url)) continue;
    assert.deepEqual(
      proxySources([{ url: new URL(url).origin, wildcard_hostname: '' }]),
      { connect: [], frame: [] },
      url,
    );
  }
  const odd = { url: 'https://eu.example.com', wildcard_hostname: '*.eu.example.com;script-src' };
  assert.deepEqual(proxySources([odd]).frame, []);
});
