import assert from 'node:assert/strict';
import { test } from 'node:test';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { DERPMapSchema } from '@ropewalk/wire/proto/tailnet';
import { isHomeRegion, readRelayMap } from './map.ts';

const read = (
  regions: NonNullable<MessageInitShape<typeof DERPMapSchema>['regions']>,
  embedded = 'https://coder.example:8443/path',
) => readRelayMap(create(DERPMapSchema, { regions }), embedded);

test('an embedded relay is at the URL that this program uses, others are where the map says', () => {
  const map = read({
    999: {
      ...{ regionId: 999n, regionName: 'Embedded', embeddedRelay: true },
      nodes: [{ name: '999b', hostName: 'inside.example', derpPort: 1, forceHttp: true, stunPort: -1 }],
    },
    1000: { regionId: 1000n, nodes: [{ hostName: 'stun.example', stunOnly: true, stunPort: 19_302 }] },
    5: {
      regionId: 5n,
      nodes: [
        { hostName: 'a.example' },
        { hostName: '2001:db8::1', forceHttp: true, ipv4: 'none', ipv6: '2001:db8::1' },
        { hostName: 'b.example', derpPort: 444, stunPort: -1, ipv4: '192.0.2.1', ipv6: 'none' },
        { hostName: 'c.example', ipv4: '192.0.2.1', ipv6: '2001:db8::1' },
        { hostName: 'c.example', ipv4: '192.0.2.1', ipv6: '2001:db8::1', stunTestIp: '192.0.2.2' },
      ],
    },
    6: { regionId: 6n, avoid: true, nodes: [{ hostName: 'a.example' }] },
  });
  const servers = (id: number) =>
    map.get(id)!.servers.map(({ url, stunPort, addresses }) => [url, stunPort, addresses]);
  assert.deepEqual(servers(999), [['https://coder.example:8443', undefined, undefined]]);
  assert.deepEqual(servers(1000), [[undefined, 19_302, undefined]]);
  assert.deepEqual(servers(5), [
    ['https://a.example', 3_478, undefined],
    ['http://[2001:db8::1]:3340', 3_478, ['2001:db8::1']],
    ['https://b.example:444', undefined, ['192.0.2.1']],
    ['https://c.example', 3_478, ['192.0.2.1', '2001:db8::1']],
    ['https://c.example', 3_478, ['192.0.2.2']],
  ]);
  assert.deepEqual(
    [...map.values()].filter(isHomeRegion).map(({ id }) => id),
    [5, 999],
  );
});

test('the address of a server in IPv6 is a host name without brackets', () => {
  const nodes = [{ hostName: 'inside.example', stunPort: 3_478 }];
  const map = read({ 9: { regionId: 9n, embeddedRelay: true, nodes } }, 'http://[2001:db8::1]:3000');
  const [server] = map.get(9)!.servers;
  assert.deepEqual([server!.hostName, server!.url], ['2001:db8::1', 'http://[2001:db8::1]:3000']);
});

test('leaves out what is malformed, and reads a bounded number of regions', () => {
  const node = { hostName: 'a.example' };
  const bad = ['', 'a b', 'a/../b', 'x@y', 'a\r\nb', 'a'.repeat(300)].map((hostName) => ({ hostName }));
  const map = read({
    0: { regionId: 0n, nodes: [node] },
    1: { regionId: 1n, nodes: [...bad, { ...node, derpPort: 70_000, stunPort: 70_000 }, { ...node, derpPort: -1 }] },
    65536: { regionId: 65_536n, nodes: [node] },
    2: { regionId: 2n, nodes: [] },
  });
  assert.deepEqual([...map.keys()].sort(), [1, 2]);
  assert.deepEqual(
    map.get(1)!.servers.map(({ url, stunPort }) => [url, stunPort]),
    [
      [undefined, undefined],
      [undefined, 3_478],
    ],
  );
  const many = Array.from({ length: 5_000 }, (_, i) => [i + 1, { regionId: BigInt(i + 1), nodes: [] }]);
  assert.equal(read(Object.fromEntries(many)).size, 1_024);
});
