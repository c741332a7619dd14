// The map of relays: regions of equal relays, of which a node chooses one as its home. Regions may also hold STUN servers.
import { isIP } from 'node:net';
import type { DERPMap } from '@ropewalk/wire/proto/tailnet';

export interface RelayServer {
  name: string;
  hostName: string;
  /** Numeric addresses to use instead of those that the host name has, one of each family at most. */
  addresses?: readonly string[];
  /** The root of its HTTP server, such as `https://example.com:8443`. Undefined if it is not a relay. */
  url?: string;
  /** Undefined if it is not a STUN server. */
  stunPort?: number;
}

export interface RelayRegion {
  /** 1 to 65,535. */
  id: number;
  code: string;
  name: string;
  /** The relay is part of the server, behind the URL that this node uses for the server. */
  isEmbedded: boolean;
  /** Never a home. */
  isAvoided: boolean;
  servers: readonly RelayServer[];
}

/** Regions by id. */
export type RelayMap = ReadonlyMap<number, RelayRegion>;

/** Further regions and servers are ignored. */
const MAX_REGIONS = 1_024;
const MAX_SERVERS = 16;
const MAX_NAME = 255;
const STUN_PORT = 3_478;
const HTTPS_PORT = 443;
/** The port of a relay without TLS that names none. */
const PLAIN_PORT = 3_340;
const MAX_PORT = 0xffff;

type Server = DERPMap['regions'][string]['nodes'][number];

/**
 * Reads a map. Malformed regions and servers are left out. The servers of embedded regions get the URL `embedded`, which is
 * the one that this node uses for the server.
 */
export function readRelayMap(map: DERPMap, embedded: string | URL): RelayMap {
  const regions = new Map<number, RelayRegion>();
  for (const region of Object.values(map.regions).slice(0, MAX_REGIONS)) {
    const id = Number(region.regionId);
    if (!Number.isInteger(id) || id < 1 || id > MAX_PORT) continue;
    const servers = region.nodes
      .slice(0, MAX_SERVERS)
      .map((server) => readServer(server, region.embeddedRelay, embedded));
    regions.set(id, {
      id,
      code: region.regionCode.slice(0, MAX_NAME),
      name: region.regionName.slice(0, MAX_NAME),
      isEmbedded: region.embeddedRelay,
      isAvoided: region.avoid,
      servers: servers.filter((server) => server !== undefined),
    });
  }
  return regions;
}

function readServer(server: Server, isEmbedded: boolean, embedded: string | URL): RelayServer | undefined {
  const { name, stunPort, stunOnly } = server;
  const here = isEmbedded ? new URL(embedded) : undefined;
  const hostName = here ? here.hostname.replace(/^\[|\]$/g, '') : server.hostName;
  if (hostName === '' || hostName.length > MAX_NAME || /[^\w.:[\]-]/.test(hostName)) return undefined;
  const url = stunOnly ? undefined : here ? here.origin : originOf(relayUrl(server));
  const port = stunPort === 0 ? STUN_PORT : stunPort;
  const named = isIP(server.stunTestIp) === 0 ? [server.ipv4, server.ipv6] : [server.stunTestIp];
  const addresses = named.filter((text) => isIP(text) !== 0);
  return {
    name: name.slice(0, MAX_NAME),
    hostName,
    ...(addresses.length > 0 && !here && { addresses }),
    ...(url && { url }),
    ...(port > 0 && port <= MAX_PORT && { stunPort: port }),
  };
}

const originOf = (url: string): string | undefined => (URL.canParse(url) ? new URL(url).origin : undefined);

/** The URL of the relay of a map's server. It is malformed if its host or port is. The port 0 means the usual one. */
export function relayUrl({
  hostName,
  derpPort,
  forceHttp,
}: Pick<Server, 'hostName' | 'derpPort' | 'forceHttp'>): string {
  const host = isIP(hostName) === 6 ? `[${hostName}]` : hostName;
  return `${forceHttp ? 'http' : 'https'}://${host}:${derpPort || (forceHttp ? PLAIN_PORT : HTTPS_PORT)}`;
}

/** Whether a node can have its home in this region. */
export function isHomeRegion({ isAvoided, servers }: RelayRegion): boolean {
  return !isAvoided && servers.some(({ url }) => url !== undefined);
}
