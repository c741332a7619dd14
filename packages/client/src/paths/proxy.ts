// The path to an agent through a workspace proxy: that of the fastest region, if its way is clearly shorter than that of the
// sessions now. The agent connects to the proxy, too, so nothing crosses the server. The proxy gets a permit of the server and
// never the session token.
import type { Duplex } from 'node:stream';
import type { Region } from '@ropewalk/contract';
import { CLIENT_PATH, type ClientTunnelRequest, type PathNews, PERMIT_HEADER } from '@ropewalk/wire/proxy-link';
import { requestTunnel } from '@ropewalk/wire/tunnel';
import { byteStream, dialWebSocket } from '@ropewalk/wire/websocket';
import type { Client } from '../client.ts';
import { UnreachableError } from '../errors.ts';
import { type RoundTrips, roundTrips } from '../round-trips.ts';
import { isClearlyFaster, type JoinOptions, type Path, type PathSource } from './path.ts';
import { PathPermits } from './permits.ts';
import { type MeasuredRegion, mayUse, measureRegions } from './regions.ts';

const FIRST_RETRY_MS = 60_000;
/** Regions are measured again after this time, in ms. */
const MEASURE_MS = 3 * 60_000;
/** Another region replaces the one in use if it is closer by this share, and by this much in ms. */
const CLOSER_SHARE = 0.8;
const CLOSER_MS = 5;
/** The fastest regions that are tried: an agent may not reach the first one. */
const MAX_TRIED = 3;
const OPEN_MS = 5_000;
const PROBES = 3;
const PROBE_MS = 1_500;

/** Opens a tunnel to the agent through a proxy. */
async function openThrough(
  client: Client,
  { url, permit }: PathNews,
  request: ClientTunnelRequest,
  signal: AbortSignal,
): Promise<Duplex> {
  const { connection } = await dialWebSocket(`${url}${CLIENT_PATH}`, {
    ...client.tls,
    headers: { [PERMIT_HEADER]: permit },
    timeoutMs: OPEN_MS,
    signal,
  });
  const stream = byteStream(connection);
  return requestTunnel({ openStream: () => stream }, { ...request }, { timeoutMs: OPEN_MS, signal });
}

class ProxyPath implements Path {
  readonly name: string;
  readonly carriesBulk = true;
  readonly isProvenByBytes = true;
  readonly measured: number[] = [];
  readonly #client: Client;
  readonly #region: Region;
  readonly #permits: PathPermits;
  readonly #closed = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #trips: RoundTrips | undefined;
  #isLost = false;
  #isReplaced = false;

  constructor(client: Client, agentId: string, region: Region) {
    this.name = `proxy ${region.name}`;
    this.#client = client;
    this.#region = region;
    this.#permits = new PathPermits(client, agentId, region.id);
    this.#timer = setInterval(() => void this.#compare().catch(() => {}), MEASURE_MS).unref();
  }

  get end(): 'lost' | 'replaced' | undefined {
    if (this.#isLost || this.#permits.isOver) return 'lost';
    return this.#isReplaced ? 'replaced' : undefined;
  }

  /** Reaches the agent, and measures the round trip. Rejects if that fails. */
  async open(signal: AbortSignal): Promise<void> {
    await this.#permits.ready(signal);
    await this.#ping(signal);
    // what is open lives as long as the newest permit that the agent has seen
    this.#permits.onNewer(() => void this.#ping(AbortSignal.timeout(OPEN_MS)).catch(() => {}));
    for (let i = 0; i < PROBES; i++) this.measured.push(await this.#trips!.measure(PROBE_MS));
  }

  async probe(): Promise<number | undefined> {
    return this.#trips?.measure(PROBE_MS);
  }

  connect(signal: AbortSignal): Promise<Duplex> {
    return openThrough(this.#client, this.#permits.news, { service: 'session' }, signal);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#closed.abort(new UnreachableError('The path is not used any more.'));
    this.#trips?.close();
    this.#permits.close();
  }

  /** Opens the stream of pings, with the newest permit. */
  async #ping(signal: AbortSignal): Promise<void> {
    const limit = AbortSignal.any([signal, this.#closed.signal]);
    const stream = await openThrough(this.#client, this.#permits.news, { service: 'ping' }, limit);
    const before = this.#trips;
    this.#trips = roundTrips(stream);
    const opened = this.#trips;
    stream.once('close', () => {
      if (this.#trips === opened) this.#isLost = true;
    });
    before?.close();
  }

  /** Ends this path if another region is closer now. */
  async #compare(): Promise<void> {
    const regions = await usableRegions(this.#client, this.#closed.signal);
    const own = regions.find(({ region }) => region.id === this.#region.id)?.ms;
    const best = regions[0]?.ms;
    if (own === undefined || best === undefined) return;
    this.#isReplaced = best <= CLOSER_SHARE * own && own - best >= CLOSER_MS;
  }
}

/** The proxies that answer, the fastest first. */
async function usableRegions(client: Client, signal: AbortSignal): Promise<(MeasuredRegion & { ms: number })[]> {
  const { regions } = await client.call('GET /regions');
  const usable = regions.filter((region) => mayUse(client, region));
  const measured = await measureRegions(client, usable, signal);
  return measured
    .filter((one): one is MeasuredRegion & { ms: number } => one.ms !== undefined)
    .sort((a, b) => a.ms - b.ms);
}

async function join(client: Client, agentId: string, { signal, currentMs }: JoinOptions): Promise<Path> {
  const regions = await usableRegions(client, signal);
  for (const { region, ms } of regions.slice(0, MAX_TRIED)) {
    // the round trip to the proxy is a part of that to the agent
    if (!isClearlyFaster(ms, currentMs())) break;
    const path = new ProxyPath(client, agentId, region);
    try {
      await path.open(signal);
      if (isClearlyFaster(Math.min(...path.measured), currentMs())) return path;
    } catch {
      // the next region may do
    }
    await path.close();
    signal.throwIfAborted();
  }
  throw new UnreachableError('No workspace proxy is faster.');
}

export const proxySource = (client: Client, agentId: string): PathSource => ({
  firstRetryMs: FIRST_RETRY_MS,
  join: (options) => join(client, agentId, options),
});
