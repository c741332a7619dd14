import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Region } from '@ropewalk/contract';
import {
  appServerOf,
  fastestRegion,
  type Latency,
  mayUseProxy,
  parseChoice,
  pickRegion,
  regionKey,
  terminalAddress,
} from './choice.ts';

const region = (name: string, more: Partial<Region> = {}): Region => ({
  id: `id-of-${name}`,
  name,
  display_name: '',
  icon_url: '',
  healthy: true,
  path_app_url: `https://${name}.example.com`,
  wildcard_hostname: `*.${name}.example.com`,
  ...more,
});
const primary = region('primary');
const eu = region('eu');
const us = region('us');
const ALL = [primary, eu, us];
const ms = (times: Record<string, number | Latency>) =>
  new Map(Object.entries(times).map(([key, time]) => [key, typeof time === 'number' ? { ms: time } : time]));

test('uses the chosen region, or else the fastest one, or else the primary one', () => {
  assert.equal(pickRegion(ALL, {}).region, primary);
  assert.equal(pickRegion(ALL, { fastest: us.id }).region, us);
  assert.deepEqual(pickRegion(ALL, { chosen: eu.id, fastest: us.id }), { region: eu });
  assert.equal(pickRegion(ALL, { chosen: 'primary', fastest: us.id }).region, primary);
  assert.deepEqual(pickRegion([], { chosen: eu.id }), { region: undefined });
});

test('falls back while the chosen region is not healthy, and ignores regions that were deleted', () => {
  const sick = { ...eu, healthy: false };
  const regions = [primary, sick, us];
  assert.deepEqual(pickRegion(regions, { chosen: eu.id, fastest: us.id }), { region: us, missed: sick });
  assert.deepEqual(pickRegion(regions, { chosen: eu.id, fastest: eu.id }), { region: primary, missed: sick });
  assert.deepEqual(pickRegion(regions, { fastest: eu.id }), { region: primary });
  assert.deepEqual(pickRegion(ALL, { chosen: 'gone', fastest: us.id }), { region: us });
});

test('the fastest region changes only if another one is clearly faster', () => {
  assert.equal(fastestRegion(ALL, ms({})), undefined);
  assert.equal(fastestRegion(ALL, ms({ primary: 100, [eu.id]: 20, [us.id]: 40 })), eu.id);
  assert.equal(fastestRegion(ALL, ms({ primary: 100, [eu.id]: 85 })), 'primary');
  assert.equal(fastestRegion(ALL, ms({ primary: 6, [eu.id]: 2 })), 'primary');
  assert.equal(fastestRegion(ALL, ms({ primary: 100, [eu.id]: 22, [us.id]: 20 }), eu.id), eu.id);
  assert.equal(fastestRegion(ALL, ms({ primary: 100, [eu.id]: 40, [us.id]: 20 }), eu.id), us.id);
});

test('a region without a time is never the fastest', () => {
  const regions = [primary, eu, { ...us, healthy: false }];
  const latencies = ms({ primary: 100, [eu.id]: { failure: 'unreachable' }, [us.id]: 1 });
  assert.equal(fastestRegion(regions, latencies), 'primary');
  assert.equal(fastestRegion(regions, latencies, eu.id), 'primary');
});

test('apps open at this host, or at the address and the hosts of a proxy', () => {
  const here = { base: '', wildcard: '*.primary.example.com', protocol: 'http:' };
  assert.deepEqual(appServerOf(undefined, ALL, 'http:'), here);
  assert.deepEqual(appServerOf(primary, ALL, 'http:'), here);
  assert.deepEqual(appServerOf(undefined, [], 'http:'), { base: '', wildcard: '', protocol: 'http:' });
  assert.deepEqual(appServerOf({ ...eu, path_app_url: 'https://eu.example.com/' }, ALL, 'http:'), {
    base: 'https://eu.example.com',
    wildcard: '*.eu.example.com',
    protocol: 'https:',
  });
  // apps that need a host use those of the servers
  assert.deepEqual(appServerOf({ ...eu, wildcard_hostname: '' }, ALL, 'http:'), {
    ...here,
    base: 'https://eu.example.com',
  });
});

test('terminals connect to the page itself or to a proxy', () => {
  const here = 'http://coder.example.com:3000/@ann/dev/terminal?x=1';
  assert.equal(terminalAddress(undefined, 'a', here).href, 'ws://coder.example.com:3000/api/v2/workspaceagents/a/pty');
  assert.equal(terminalAddress(eu, 'a', here).href, 'wss://eu.example.com/api/v2/workspaceagents/a/pty');
});

test('remembers only keys of regions', () => {
  assert.equal(regionKey(primary), 'primary');
  assert.deepEqual(parseChoice('{"chosen":"a","fastest":"b"}'), { chosen: 'a', fastest: 'b' });
  for (const text of [null, '', 'null', '[]', '{', '"a"', '{"chosen":1,"fastest":{}}'])
    assert.deepEqual(parseChoice(text), {}, String(text));
  assert.equal(mayUseProxy({}), false);
  assert.equal(mayUseProxy({ chosen: 'primary', fastest: 'b' }), false);
  assert.equal(mayUseProxy({ fastest: 'b' }), true);
});
