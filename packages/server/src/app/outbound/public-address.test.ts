import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo, LookupFunction } from 'node:net';
import { test } from 'node:test';
import { isHostAddress, isPublicAddress, lookupOf, namesPrivateAddress, publicDispatcher } from './public-address.ts';

test('knows addresses that are not public, in each form', () => {
  const inner = `127.0.0.1 127.9.9.9 0.0.0.0 10.1.2.3 172.16.0.1 172.31.255.255 192.168.0.1 169.254.169.254 100.64.0.1
    224.0.0.1 255.255.255.255 192.0.2.1 :: ::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:a9fe:a9fe fe80::1 fd12::1 ff02::1
    64:ff9b::7f00:1 64:ff9b:1::a00:1 2002:7f00:1:: 2001:0:1::1 ::127.0.0.1 localhost`.split(/\s+/);
  assert.deepEqual(inner.filter(isPublicAddress), []);
  const open = '1.1.1.1 8.8.8.8 172.32.0.1 100.128.0.1 2606:4700:4700::1111 2a00:1450:4001::1 ::ffff:8.8.8.8'.split(
    ' ',
  );
  assert.deepEqual(open.filter(isPublicAddress), open);
  // URL writes addresses in their usual form
  for (const host of ['2130706433', '0x7f.1', '127.1', '[::1]', '[::ffff:10.0.0.1]', '0300.0250.0.1'])
    assert.ok(namesPrivateAddress(new URL(`https://${host}/`)), host);
  for (const host of ['push.example.com', '8.8.8.8', 'localhost'])
    assert.ok(!namesPrivateAddress(new URL(`https://${host}/`)));
});

test('knows addresses that no host of a private network has', () => {
  const never =
    '0.0.0.0 169.254.169.254 224.0.0.1 255.255.255.255 ::ffff:169.254.169.254 fe80::1 ff02::1 fd00:ec2::254 x';
  assert.deepEqual(never.split(' ').filter(isHostAddress), []);
  const hosts = '127.0.0.1 10.1.2.3 192.168.0.1 8.8.8.8 ::1 fd12::1 2606:4700:4700::1111 ::ffff:10.0.0.1'.split(' ');
  assert.deepEqual(hosts.filter(isHostAddress), hosts);
});

test('connects to neither a private address nor a name that resolves to one', async (t) => {
  let requests = 0;
  const server = createServer((_request, response) => {
    requests++;
    response.end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const here = await publicDispatcher((address) => address === '127.0.0.1');
  for (const host of ['localhost', '127.0.0.1'])
    assert.equal((await fetch(`http://${host}:${port}/`, { dispatcher: here })).status, 200);
  const dispatcher = await publicDispatcher();
  for (const host of ['localhost', '127.0.0.1', '[::1]', '0x7f.1']) {
    await assert.rejects(fetch(`http://${host}:${port}/`, { dispatcher }), (err: Error) => {
      assert.match(String((err.cause as Error).message), /sends nothing to .*: its address is not public/);
      return true;
    });
  }
  assert.equal(requests, 2);
});

test('resolves names for callers that want one address or all', async () => {
  const resolve = (options: Parameters<LookupFunction>[1]) =>
    new Promise((done) => lookupOf(isPublicAddress)('8.8.8.8', options, (...answer) => done(answer)));
  assert.deepEqual(await resolve({}), [null, '8.8.8.8', 4]);
  assert.deepEqual(await resolve({ all: true }), [null, [{ address: '8.8.8.8', family: 4 }]]);
});
