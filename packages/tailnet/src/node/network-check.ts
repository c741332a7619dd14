// What a node learns about its network: its public UDP addresses, from STUN servers, and its latency to each region.
import { randomBytes } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import type { Clock } from '@ropewalk/kit';
import { type Endpoint, formatEndpoint, isMappedIPv4, parseAddress } from '../address.ts';
import type { MeasureRegion } from '../derp/dial.ts';
import { isHomeRegion, type RelayMap, type RelayRegion, type RelayServer } from '../derp/map.ts';
import { decodeStunResponse, encodeStunRequest, STUN_TX_BYTES } from '../stun.ts';

type Family = 4 | 6;

export interface NetworkCheckOptions {
  map: RelayMap;
  stun: StunClient;
  clock: Pick<Clock, 'monotonic' | 'sleep'>;
  measure: MeasureRegion;
  /** The round trip over an open connection to this region, in ms. Undefined if there is none. */
  ping: (region: number) => Promise<number> | undefined;
  signal: AbortSignal;
  /** A region's latency is known. */
  onLatency: (latency: RegionLatency) => void;
}

export interface RegionLatency {
  region: number;
  family: Family;
  ms: number;
}

/** The check ends after this time. */
export const CHECK_MS = 3_000;
/** A region with a STUN server is measured over HTTP if STUN has not answered after this time. */
const STUN_HEAD_START_MS = 300;
/** Maximum number of regions that are measured at a time. */
const MAX_CONCURRENT = 16;

/** Measures all regions. Returns the public UDP addresses that STUN servers saw, without duplicates. */
export async function checkNetwork(options: NetworkCheckOptions): Promise<Endpoint[]> {
  const { map, clock } = options;
  const found = new Map<string, Endpoint>();
  const end = new AbortController();
  const signal = AbortSignal.any([options.signal, end.signal]);
  const regions = map.values();
  const worker = async () => {
    for (const region of regions) await checkRegion(region, { ...options, signal }, found);
  };
  const all = Promise.all(Array.from({ length: MAX_CONCURRENT }, worker));
  await Promise.race([all, clock.sleep(CHECK_MS, signal)]).catch(() => {});
  end.abort(new Error('The check of the network ended'));
  await all.catch(() => {});
  return [...found.values()];
}

async function checkRegion(region: RelayRegion, options: NetworkCheckOptions, found: Map<string, Endpoint>) {
  const { stun, clock, signal, measure, ping, onLatency } = options;
  let answers = 0;
  const note = (ms: number, family: Family) => {
    answers++;
    onLatency({ region: region.id, family, ms });
  };
  const asked = region.servers.map(async (server) => {
    if (server.stunPort === undefined) return;
    const endpoints = (await addressesOf(server, signal)).map((address) => ({ address, port: server.stunPort! }));
    await Promise.all(
      endpoints.map(async (endpoint) => {
        const answer = await stun.ask(endpoint, signal);
        if (!answer) return;
        found.set(formatEndpoint(answer.source), answer.source);
        note(answer.ms, isMappedIPv4(endpoint.address) ? 4 : 6);
      }),
    );
  });
  const stunned = Promise.all(asked);
  if (isHomeRegion(region)) {
    await Promise.race([stunned, clock.sleep(STUN_HEAD_START_MS, signal).catch(() => {})]);
    const over = () => measure(region, { signal });
    if (answers === 0 && !signal.aborted)
      await (ping(region.id)?.catch(over) ?? over()).then(
        (ms) => note(ms, 4),
        () => {},
      );
  }
  await stunned;
}

async function addressesOf({ hostName, addresses }: RelayServer, signal: AbortSignal): Promise<Buffer[]> {
  const known = (addresses ?? [hostName]).map((text) => parseAddress(text)).filter((one) => one !== undefined);
  if (known.length > 0) return known;
  const found = lookup(hostName, { all: true }).catch(() => []);
  const aborted = new Promise<[]>((resolve) => {
    if (signal.aborted) resolve([]);
    signal.addEventListener('abort', () => resolve([]), { once: true });
  });
  const parsed = (await Promise.race([found, aborted])).map((one) => parseAddress(one.address));
  const both = [true, false].map((isIPv4) => parsed.find((one) => one && isMappedIPv4(one) === isIPv4));
  return both.filter((one) => one !== undefined);
}

/** When a request is sent again, in ms after the one before. */
const RESENDS_MS = [250, 500, 1_000];
/** Maximum number of requests without an answer. */
const MAX_REQUESTS = 1_024;

interface Request {
  at: number;
  resolve: (answer: { ms: number; source: Endpoint } | undefined) => void;
}

/** Asks STUN servers over the node's own sockets, whose other packets it leaves alone. */
export class StunClient {
  readonly #clock: Pick<Clock, 'monotonic' | 'sleep'>;
  readonly #send: (packet: Buffer, to: Endpoint) => boolean;
  readonly #requests = new Map<string, Request>();
  #answeredAt = Number.NEGATIVE_INFINITY;

  /** `send` returns false if there is no socket of the family. */
  constructor(clock: Pick<Clock, 'monotonic' | 'sleep'>, send: (packet: Buffer, to: Endpoint) => boolean) {
    this.#clock = clock;
    this.#send = send;
  }

  /** The monotonic time, in ms, of the last answer. */
  get answeredAt(): number {
    return this.#answeredAt;
  }

  /** Asks until there is an answer or the signal aborts. Undefined without an answer. Never rejects. */
  async ask(to: Endpoint, signal: AbortSignal): Promise<{ ms: number; source: Endpoint } | undefined> {
    if (signal.aborted || this.#requests.size >= MAX_REQUESTS) return undefined;
    const tx = randomBytes(STUN_TX_BYTES);
    const name = tx.toString('latin1');
    const { promise, resolve } = Promise.withResolvers<{ ms: number; source: Endpoint } | undefined>();
    const ended = () => resolve(undefined);
    signal.addEventListener('abort', ended, { once: true });
    this.#requests.set(name, { at: this.#clock.monotonic(), resolve });
    void this.#sendUntilAnswered(name, tx, to, signal).then(ended, ended);
    const answer = await promise;
    signal.removeEventListener('abort', ended);
    this.#requests.delete(name);
    return answer;
  }

  /** Takes a packet from the network. */
  receive(packet: Buffer): void {
    const response = decodeStunResponse(packet);
    const request = response && this.#requests.get(response.tx.toString('latin1'));
    if (!request) return;
    const now = this.#clock.monotonic();
    this.#answeredAt = now;
    request.resolve({ ms: now - request.at, source: response.source });
  }

  async #sendUntilAnswered(name: string, tx: Buffer, to: Endpoint, signal: AbortSignal): Promise<void> {
    const packet = encodeStunRequest(tx);
    for (const wait of RESENDS_MS) {
      const request = this.#requests.get(name);
      if (!request) return;
      if (!this.#send(packet, to)) throw new Error('no socket of this family');
      await this.#clock.sleep(wait, signal);
    }
  }
}
