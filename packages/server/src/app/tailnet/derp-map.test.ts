import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { AgentConnectionInfo, TailnetDERPMap } from '@ropewalk/contract';
import { startTestServer } from '@ropewalk/testkit';
import { dialWebSocket } from '@ropewalk/wire/websocket';
import { loadConfig } from '../../config/load.ts';
import { ProxyRelays } from '../context/proxy-relays.ts';
import { derpMap, hasRelay, proxyRegionId, readRelayRegions } from './derp-map.ts';

const configOf = (env: Record<string, string>) => loadConfig({ env }).config;

async function mapOf(env: Record<string, string>, accessUrl = 'https://dev.example.com'): Promise<TailnetDERPMap> {
  const config = configOf(env);
  return derpMap({ config, accessUrl, relayRegions: await readRelayRegions(config), proxyRelays: new ProxyRelays() });
}

const OTHER = {
  Regions: {
    7: {
      RegionID: 7,
      RegionCode: 'far',
      RegionName: 'Far',
      Nodes: [
        { Name: '7a', RegionID: 7, HostName: 'relay.example.com', STUNPort: 3478 },
        { Name: '7s', RegionID: 7, HostName: 'stun.example.com', STUNOnly: true },
      ],
    },
  },
};

function fileOf(t: { after(end: () => void): void }, content: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'derp-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'map.json');
  writeFileSync(path, content);
  return path;
}

test('lists the relay of the server at the access URL, and one region for each STUN server', async () => {
  const { Regions } = await mapOf({
    CODER_DERP_SERVER_REGION_ID: '20',
    CODER_DERP_SERVER_REGION_CODE: 'home',
    CODER_DERP_SERVER_REGION_NAME: 'Home relay',
    CODER_DERP_SERVER_STUN_ADDRESSES: 'stun.example.com:3478,[2001:db8::1]:19302',
  });
  assert.deepEqual(Object.keys(Regions), ['20', '21', '22']);
  const { Nodes, ...region } = Regions['20']!;
  assert.deepEqual(region, {
    Avoid: false,
    EmbeddedRelay: true,
    RegionID: 20,
    RegionCode: 'home',
    RegionName: 'Home relay',
  });
  const { Name, HostName, DERPPort, STUNPort, ForceHTTP, STUNOnly } = Nodes[0]!;
  assert.deepEqual(
    { Name, HostName, DERPPort, STUNPort, ForceHTTP, STUNOnly },
    { Name: '20b', HostName: 'dev.example.com', DERPPort: 443, STUNPort: -1, ForceHTTP: false, STUNOnly: false },
  );
  const stun = Regions['22']!;
  assert.deepEqual([stun.RegionCode, stun.RegionName], ['coder_stun_22', 'Coder STUN 22']);
  const [node] = stun.Nodes;
  assert.deepEqual(
    [node!.Name, node!.HostName, node!.STUNPort, node!.STUNOnly],
    ['22stun0', '2001:db8::1', 19302, true],
  );
});

test('lists the port of the access URL, and HTTP without TLS', async () => {
  const at = async (url: string) => {
    const [node] = (await mapOf({}, url)).Regions['999']!.Nodes;
    return [node!.HostName, node!.DERPPort, node!.ForceHTTP];
  };
  assert.deepEqual(await at('http://127.0.0.1:3000'), ['127.0.0.1', 3000, true]);
  assert.deepEqual(await at('http://dev.example.com'), ['dev.example.com', 80, true]);
  assert.deepEqual(await at('https://[2001:db8::1]:8443'), ['2001:db8::1', 8443, false]);
});

test('--block-direct-connections removes STUN servers, and --derp-server-enable=false the relay', async (t) => {
  const path = fileOf(t, JSON.stringify(OTHER));
  const blocked = await mapOf({ CODER_BLOCK_DIRECT: 'true', CODER_DERP_CONFIG_PATH: path });
  assert.deepEqual(Object.keys(blocked.Regions), ['7', '999']);
  assert.deepEqual(
    blocked.Regions['7']!.Nodes.map(({ Name, STUNPort }) => [Name, STUNPort]),
    [['7a', -1]],
  );
  const without = await mapOf({ CODER_DERP_SERVER_ENABLE: 'false' });
  assert.deepEqual([without.Regions, hasRelay(without)], [{}, false]);
  const others = await mapOf({ CODER_DERP_SERVER_ENABLE: 'false', CODER_DERP_CONFIG_PATH: path });
  assert.deepEqual([Object.keys(others.Regions), hasRelay(others)], [['7'], true]);
});

test('rejects wrong maps and options with the reason', async (t) => {
  const rejects = (env: Record<string, string>, why: RegExp) => assert.rejects(mapOf(env), why);
  const map = (content: string) => ({ CODER_DERP_CONFIG_PATH: fileOf(t, content) });
  await rejects(
    { CODER_DERP_CONFIG_PATH: '/absent.json' },
    /Could not read the DERP map of --derp-config-path .*ENOENT/,
  );
  await rejects({ CODER_DERP_CONFIG_PATH: 'a', CODER_DERP_CONFIG_URL: 'http://b' }, /but not both/);
  await rejects({ CODER_DERP_SERVER_REGION_ID: '0' }, /--derp-server-region-id: 0/);
  await rejects({ CODER_DERP_SERVER_STUN_ADDRESSES: 'stun.example.com' }, /"stun\.example\.com" must be HOST:PORT/);
  await rejects(map('{'), /Invalid DERP map .*JSON/);
  await rejects(map('[]'), /must be an object with "Regions"/);
  await rejects(map('{"Regions":{"8":{"RegionID":7}}}'), /region "8" has another "RegionID"/);
  await rejects(map('{"Regions":{"7":{"RegionID":7,"Nodes":[{"HostName":5}]}}}'), /"HostName" .* is not a string/);
  await rejects(map('{"Regions":{"7":{"RegionID":7,"Nodes":[{}]}}}'), /has no "HostName"/);
  await rejects(map('{"Regions":{"999":{"RegionID":999}}}'), /has the number of a region of this server/);
});

test('serves the map of --derp-config-url with its own relay', async (t) => {
  const host = createServer((request, response) => {
    if (request.url === '/map') response.end(JSON.stringify(OTHER));
    else response.writeHead(500).end();
  });
  host.listen(0, '127.0.0.1');
  await once(host, 'listening');
  t.after(() => host.close());
  const url = `http://127.0.0.1:${(host.address() as AddressInfo).port}`;
  await assert.rejects(mapOf({ CODER_DERP_CONFIG_URL: `${url}/none` }), /status 500/);
  const server = await startTestServer({
    env: {
      CODER_DERP_CONFIG_URL: `${url}/map`,
      CODER_DERP_FORCE_WEBSOCKETS: 'true',
      CODER_BLOCK_DIRECT: 'true',
    },
  });
  t.after(() => server.stop());
  const { body } = await server.api<AgentConnectionInfo>('GET', '/workspaceagents/connection');
  assert.deepEqual([body.derp_force_websockets, body.disable_direct_connections], [true, true]);
  assert.deepEqual(Object.keys(body.derp_map!.Regions), ['7', '999']);
  const { connection } = await dialWebSocket(`${server.url}/api/v2/derp-map`, {
    headers: { 'Coder-Session-Token': server.adminToken },
  });
  t.after(() => connection.destroy());
  const [message] = (await once(connection, 'binary')) as [Buffer];
  assert.deepEqual(JSON.parse(message.toString()), body.derp_map);
});

test('lists the relays of healthy proxies above all other regions', async () => {
  const config = configOf({ CODER_DERP_SERVER_STUN_ADDRESSES: 'disable' });
  const proxyRelays = new ProxyRelays();
  const parts = { config, accessUrl: 'https://dev.example.com', relayRegions: [], proxyRelays };
  const ids = () => Object.keys(derpMap(parts).Regions);
  proxyRelays.set([
    { name: 'EU', display_name: '', region_id: 3, url: 'https://eu.example.com' },
    { name: 'lab', display_name: 'Laboratory', region_id: 7, url: 'http://[2001:db8::1]:8080' },
  ]);
  assert.deepEqual(ids(), ['999', '10003', '10007']);
  const { Nodes, ...region } = derpMap(parts).Regions['10007']!;
  assert.deepEqual(region, {
    ...{ Avoid: false, EmbeddedRelay: false },
    ...{ RegionID: 10_007, RegionCode: 'coder_lab', RegionName: 'Laboratory' },
  });
  const { Name, HostName, DERPPort, STUNPort, ForceHTTP } = Nodes[0]!;
  assert.deepEqual(
    { Name, HostName, DERPPort, STUNPort, ForceHTTP },
    { Name: '10007a', HostName: '2001:db8::1', DERPPort: 8080, STUNPort: -1, ForceHTTP: true },
  );
  const [eu] = derpMap(parts).Regions['10003']!.Nodes;
  assert.deepEqual([eu!.HostName, eu!.DERPPort, eu!.ForceHTTP], ['eu.example.com', 443, false]);
  assert.deepEqual([derpMap(parts).Regions['10003']!.RegionName, eu!.RegionID], ['EU', 10_003]);
  // without a relay of the server, proxies are the only ones
  const only = { ...parts, config: configOf({ CODER_DERP_SERVER_ENABLE: 'false' }) };
  assert.deepEqual([Object.keys(derpMap(only).Regions), hasRelay(derpMap(only))], [['10003', '10007'], true]);
  // the numbers depend on the other regions, and not on each other
  const far = { ...OTHER.Regions[7], RegionID: 8_001, EmbeddedRelay: false, Avoid: false, Nodes: Nodes };
  assert.equal(proxyRegionId({ ...parts, relayRegions: [far] }, { region_id: 3 }), 20_003);
  // a code of the operator's map wins
  const taken = { ...far, RegionID: 5, RegionCode: 'coder_eu' };
  assert.deepEqual(Object.keys(derpMap({ ...parts, relayRegions: [taken] }).Regions), ['5', '999', '10007']);
  // clients could not use the number
  proxyRelays.set([{ name: 'many', display_name: '', region_id: 55_536, url: 'https://eu.example.com' }]);
  assert.deepEqual(ids(), ['999']);
});
