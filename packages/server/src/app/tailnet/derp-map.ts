// The DERP map lists the relays and STUN servers that upstream's clients and agents may use: this server's own relay, those
// of healthy workspace proxies, and those of --derp-config-url or --derp-config-path. A relay forwards packets between nodes that have no direct path. A
// STUN server shows a node its public address. Source of names and shapes: upstream's answers, recorded by the team.
import { readFile } from 'node:fs/promises';
import type { TailnetDERPMap, TailnetDERPNode, TailnetDERPRegion } from '@ropewalk/contract';
import { AppError, errorText } from '@ropewalk/kit';
import { type Address, parseAddress } from '../../config/listen.ts';
import type { Config } from '../../config/options.ts';
import type { Services } from '../context/context.ts';
import type { ProxyRelay, ProxyRelays } from '../context/proxy-relays.ts';
import { boundedFetch } from '../outbound/fetch.ts';

/** Turns the STUN servers off, as the value of --derp-server-stun-addresses. */
const NO_STUN = 'disable';
/** Without a port of STUN. 0 would mean the standard port. */
const NO_PORT = -1;
/** Maximum number of regions in the operator's map, and of nodes in each. */
const MAX_REGIONS = 1_000;
const MAX_NODES = 100;
const MAX_REGION_ID = 2 ** 31 - 1;
/** Numbers up to this are for regions that operators add to the map. Proxies have higher ones. Upstream's numbers. */
const REGION_STEP = 10_000;
const REGION_ROOM = 2_000;
/** Clients use the number of a region as the port of an address. */
const MAX_USABLE_REGION_ID = 65_535;

type MapConfig = Pick<
  Config,
  | 'derpServerEnable'
  | 'derpServerRegionId'
  | 'derpServerRegionCode'
  | 'derpServerRegionName'
  | 'derpServerStunAddresses'
  | 'blockDirectConnections'
>;

/** What the map depends on. */
export type MapServices = Pick<Services, 'config' | 'accessUrl' | 'relayRegions' | 'proxyRelays'>;

interface BaseParts {
  config: MapConfig;
  accessUrl: string;
  relayRegions: readonly TailnetDERPRegion[];
}

interface MapParts extends BaseParts {
  proxyRelays: Pick<ProxyRelays, 'current'>;
}

/** The map for clients and agents of this server. A proxy whose number or code another region has is left out. */
export function derpMap(parts: MapParts): TailnetDERPMap {
  const base = baseMap(parts);
  const codes = new Set(Object.values(base.Regions).map(({ RegionCode }) => RegionCode));
  const first = firstProxyRegion(base);
  const proxies = parts.proxyRelays.current
    .map((proxy) => proxyRegion(proxy, first + proxy.region_id))
    .filter(({ RegionID, RegionCode }) => RegionID <= MAX_USABLE_REGION_ID && !codes.has(RegionCode));
  return {
    ...base,
    Regions: { ...base.Regions, ...Object.fromEntries(proxies.map((region) => [String(region.RegionID), region])) },
  };
}

/** The map without proxies. */
function baseMap({ config, accessUrl, relayRegions }: BaseParts): TailnetDERPMap {
  const own = config.derpServerEnable ? [ownRegion(config, accessUrl), ...stunRegions(config)] : [];
  const regions = [...relayRegions, ...own].map((region) =>
    config.blockDirectConnections ? withoutStun(region) : region,
  );
  return {
    HomeParams: { RegionScore: {} },
    omitDefaultRegions: true,
    Regions: Object.fromEntries(
      regions.filter(({ Nodes }) => Nodes.length > 0).map((region) => [String(region.RegionID), region]),
    ),
  };
}

/** The number of a proxy's region: above those of the servers and of the operator. It depends on no other proxy. */
export const proxyRegionId = (parts: BaseParts, { region_id: id }: Pick<ProxyRelay, 'region_id'>): number =>
  firstProxyRegion(baseMap(parts)) + id;

function firstProxyRegion({ Regions }: Pick<TailnetDERPMap, 'Regions'>): number {
  const highest = Math.max(0, ...Object.keys(Regions).map(Number));
  return Math.ceil((highest + REGION_ROOM) / REGION_STEP) * REGION_STEP;
}

/** The relay of a proxy. Clients dial its access URL. */
function proxyRegion({ name, display_name: displayName, url }: ProxyRelay, id: number): TailnetDERPRegion {
  return {
    Avoid: false,
    EmbeddedRelay: false,
    RegionID: id,
    RegionCode: `coder_${name.toLowerCase()}`,
    RegionName: displayName || name,
    Nodes: [relayNode(id, `${id}a`, url)],
  };
}

/** Whether a map has a relay. Without one, upstream's clients and agents cannot reach each other. */
export function hasRelay({ Regions }: TailnetDERPMap): boolean {
  return Object.values(Regions).some(({ Nodes }) => Nodes.some(({ STUNOnly }) => !STUNOnly));
}

/** The relay of this server. Clients dial the access URL. */
function ownRegion(config: MapConfig, accessUrl: string): TailnetDERPRegion {
  return {
    Avoid: false,
    EmbeddedRelay: true,
    RegionID: config.derpServerRegionId,
    RegionCode: config.derpServerRegionCode,
    RegionName: config.derpServerRegionName,
    Nodes: [relayNode(config.derpServerRegionId, `${config.derpServerRegionId}b`, accessUrl)],
  };
}

/** A relay at a URL, without STUN. */
function relayNode(region: number, name: string, url: string): TailnetDERPNode {
  const { protocol, hostname, port } = new URL(url);
  const isPlain = protocol === 'http:';
  return nodeOf(region, {
    Name: name,
    HostName: hostname.replace(/^\[|\]$/g, ''),
    DERPPort: port === '' ? (isPlain ? 80 : 443) : Number(port),
    STUNPort: NO_PORT,
    ForceHTTP: isPlain,
  });
}

/** One region for each STUN server, because a node tries only one of each region. */
function stunRegions(config: MapConfig): TailnetDERPRegion[] {
  const { derpServerRegionId: base, derpServerStunAddresses: addresses } = config;
  if (addresses.includes(NO_STUN)) return [];
  return addresses.map((address, at) => {
    const id = base + 1 + at;
    const { host, port } = stunAddress(address);
    return {
      Avoid: false,
      EmbeddedRelay: false,
      RegionID: id,
      RegionCode: `coder_stun_${id}`,
      RegionName: `Coder STUN ${id}`,
      Nodes: [nodeOf(id, { Name: `${id}stun0`, HostName: host, STUNOnly: true, STUNPort: port })],
    };
  });
}

function stunAddress(text: string): Address {
  const [, port] = /^(?:\[[0-9a-fA-F:.]+\]|[^:[\]]+):(\d{1,5})$/.exec(text) ?? [];
  if (port === undefined || Number(port) < 1 || Number(port) > 65_535) {
    throw new AppError(
      'invalid',
      `Invalid value for --derp-server-stun-addresses: ${JSON.stringify(text)} must be HOST:PORT or "${NO_STUN}".`,
    );
  }
  return parseAddress(text);
}

function nodeOf(region: number, more: Partial<TailnetDERPNode>): TailnetDERPNode {
  return {
    CanPort80: false,
    CertName: '',
    DERPPort: 0,
    ForceHTTP: false,
    HostName: '',
    InsecureForTests: false,
    IPv4: '',
    IPv6: '',
    Name: '',
    STUNOnly: false,
    STUNPort: 0,
    STUNTestIP: '',
    ...more,
    RegionID: region,
  };
}

const withoutStun = (region: TailnetDERPRegion): TailnetDERPRegion => ({
  ...region,
  Nodes: region.Nodes.flatMap((node) => (node.STUNOnly ? [] : [{ ...node, STUNPort: NO_PORT }])),
});

/**
 * Reads the regions of the operator's map, and checks the options of the map. Called once, at start.
 * @throws AppError `invalid` for wrong options or a wrong map, `unavailable` if the URL does not answer
 */
export async function readRelayRegions(
  config: MapConfig & Pick<Config, 'derpConfigUrl' | 'derpConfigPath'>,
  signal?: AbortSignal,
): Promise<TailnetDERPRegion[]> {
  const { derpConfigUrl: url, derpConfigPath: path, derpServerRegionId: id } = config;
  if (url !== '' && path !== '')
    throw new AppError('invalid', 'Set --derp-config-url or --derp-config-path, but not both.');
  if (!isRegionId(id))
    throw new AppError('invalid', `Invalid value for --derp-server-region-id: ${id} is not in 1 to ${MAX_REGION_ID}.`);
  const own = baseMap({ config, accessUrl: 'http://localhost', relayRegions: [] }).Regions;
  if (url === '' && path === '') return [];
  const from = url === '' ? `--derp-config-path ${path}` : `--derp-config-url ${url}`;
  const text = url === '' ? await readText(path, from) : await download(url, from, signal);
  const regions = parseRegions(text, from);
  const taken = regions.find(({ RegionID }) => String(RegionID) in own);
  if (taken) {
    throw new AppError(
      'invalid',
      `The region ${taken.RegionID} of ${from} has the number of a region of this server. Set another --derp-server-region-id.`,
    );
  }
  return regions;
}

async function readText(path: string, from: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (err) {
    throw new AppError('invalid', `Could not read the DERP map of ${from}: ${errorText(err)}`);
  }
}

async function download(url: string, from: string, signal: AbortSignal | undefined): Promise<string> {
  const failed = (why: string, cause?: unknown) =>
    new AppError('unavailable', `Could not download the DERP map of ${from}: ${why}`, { cause });
  const answer = await boundedFetch(url, { signal }).catch((err: Error) => {
    throw failed(errorText(err.cause ?? err), err);
  });
  if (answer.status !== 200) throw failed(`the server answered with status ${answer.status}`);
  return answer.text();
}

/** Reads a map as Go's JSON decoder does: absent fields have their zero values. */
function parseRegions(text: string, from: string): TailnetDERPRegion[] {
  const wrong = (why: string) => new AppError('invalid', `Invalid DERP map of ${from}: ${why}.`);
  let map: unknown;
  try {
    map = JSON.parse(text);
  } catch (err) {
    throw wrong(errorText(err));
  }
  const regions = isObject(map) ? (map['Regions'] ?? {}) : undefined;
  if (!isObject(regions)) throw wrong('it must be an object with "Regions"');
  const entries = Object.entries(regions);
  if (entries.length > MAX_REGIONS) throw wrong(`it has more than ${MAX_REGIONS} regions`);
  return entries.map(([key, region]) => parseRegion(region, key, wrong));
}

function parseRegion(region: unknown, key: string, wrong: (why: string) => AppError): TailnetDERPRegion {
  if (!isObject(region)) throw wrong(`region ${key} is not an object`);
  const id = region['RegionID'] ?? 0;
  if (!isRegionId(id) || String(id) !== key) throw wrong(`region ${JSON.stringify(key)} has another "RegionID"`);
  const nodes = region['Nodes'] ?? [];
  if (!Array.isArray(nodes) || nodes.length > MAX_NODES)
    throw wrong(`"Nodes" of region ${id} is not a list of up to ${MAX_NODES}`);
  const field = fields(region, `region ${id}`, wrong);
  return {
    Avoid: field('Avoid', false),
    EmbeddedRelay: false,
    RegionID: id,
    RegionCode: field('RegionCode', ''),
    RegionName: field('RegionName', ''),
    Nodes: nodes.map((node: unknown) => parseNode(node, id, wrong)),
  };
}

function parseNode(node: unknown, region: number, wrong: (why: string) => AppError): TailnetDERPNode {
  if (!isObject(node)) throw wrong(`a node of region ${region} is not an object`);
  const field = fields(node, `a node of region ${region}`, wrong);
  const empty = nodeOf(region, {});
  const names = Object.keys(empty).filter((name) => name !== 'RegionID') as (keyof TailnetDERPNode)[];
  const parsed = Object.fromEntries(names.map((name) => [name, field(name, empty[name])]));
  if (parsed['HostName'] === '') throw wrong(`a node of region ${region} has no "HostName"`);
  return { ...empty, ...parsed };
}

/** Reads a field of the type of its zero value. */
function fields(object: Record<string, unknown>, where: string, wrong: (why: string) => AppError) {
  return <T extends string | number | boolean>(name: string, zero: T): T => {
    const value = object[name] ?? zero;
    if (typeof value !== typeof zero || (typeof value === 'number' && !Number.isInteger(value)))
      throw wrong(`"${name}" of ${where} is not a ${typeof zero === 'number' ? 'whole number' : typeof zero}`);
    return value as T;
  };
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isRegionId = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 1 && (value as number) <= MAX_REGION_ID;

/** The map, and again whenever it changes, until the signal aborts. */
export async function* derpMaps(services: MapServices, signal: AbortSignal): AsyncGenerator<TailnetDERPMap> {
  while (!signal.aborted) {
    const seen = services.proxyRelays.current;
    yield derpMap(services);
    await services.proxyRelays.changedFrom(seen, signal);
  }
}

/** What clients need to reach agents, as upstream's answer. */
export function connectionInfo(services: MapServices) {
  const { config } = services;
  return {
    derp_map: derpMap(services),
    derp_force_websockets: config.derpForceWebsockets,
    disable_direct_connections: config.blockDirectConnections,
    hostname_suffix: config.workspaceHostnameSuffix,
  };
}

/** The map as a message of the Tailnet and Agent services. */
export function derpMapMessage({ Regions }: TailnetDERPMap) {
  return {
    homeParams: {},
    regions: Object.fromEntries(
      Object.entries(Regions).map(([id, region]) => [
        id,
        {
          regionId: BigInt(region.RegionID),
          embeddedRelay: region.EmbeddedRelay,
          regionCode: region.RegionCode,
          regionName: region.RegionName,
          avoid: region.Avoid,
          nodes: region.Nodes.map((node) => ({
            name: node.Name,
            regionId: BigInt(node.RegionID),
            hostName: node.HostName,
            certName: node.CertName,
            ipv4: node.IPv4,
            ipv6: node.IPv6,
            stunPort: node.STUNPort,
            stunOnly: node.STUNOnly,
            derpPort: node.DERPPort,
            insecureForTests: node.InsecureForTests,
            forceHttp: node.ForceHTTP,
            stunTestIp: node.STUNTestIP,
            canPort80: node.CanPort80,
          })),
        },
      ]),
    ),
  };
}
