// The services of an agent over the tailnet, as the streams that tunnels of the server are.
import { Duplex } from 'node:stream';
import { DatagramReader, frameDatagram } from '@ropewalk/wire/datagrams';
import type { Client } from '../client.ts';
import { joinTailnet, type TailnetMember } from './member.ts';
import { speedtest } from './speedtest.ts';

/** Upstream's numbers. */
const SSH_PORT = 1;
const SPEEDTEST_PORT = 3;
const PROBE_BYTES = 8;
/** How long this program stays in the tailnet after its last stream, in ms: a browser opens connections one after the other. */
const IDLE_MS = 5_000;

export interface AgentService {
  /** `ssh`, `tcp` (with a port) or another service that the server lists. */
  service: string;
  /** A port of the workspace's loopback. */
  port?: number;
  signal?: AbortSignal;
}

/** A stream, and how its bytes go now. */
export interface TailnetTunnel {
  stream: Duplex;
  /** Such as `relay Europe` or `direct 192.0.2.7:41641`. Empty before the first answer to a ping. */
  path(): string;
}

/** Opens streams to one agent over one membership, which begins with the first of them and ends after the last. */
class Reach {
  readonly #client: Client;
  readonly #agentId: string;
  readonly #onUnused: () => void;
  #joined: Promise<TailnetMember> | undefined;
  #streams = 0;
  #idle: NodeJS.Timeout | undefined;

  constructor(client: Client, agentId: string, onUnused: () => void) {
    this.#client = client;
    this.#agentId = agentId;
    this.#onUnused = onUnused;
  }

  async open(options: AgentService): Promise<TailnetTunnel> {
    clearTimeout(this.#idle);
    this.#streams++;
    try {
      this.#joined ??= joinTailnet(this.#client, this.#agentId, options.signal ? { signal: options.signal } : {});
      const joined = this.#joined;
      const member = await joined.catch((err) => {
        // the next stream joins again
        if (this.#joined === joined) this.#joined = undefined;
        throw err;
      });
      const opened = await openService(member, options);
      opened.stream.once('close', () => this.#left());
      return opened;
    } catch (err) {
      this.#left();
      throw err;
    }
  }

  #left(): void {
    this.#streams--;
    if (this.#streams > 0) return;
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => {
      this.#onUnused();
      this.#joined?.then(
        (member) => member.close(),
        () => {},
      );
    }, IDLE_MS);
  }
}

const reaches = new WeakMap<Client, Map<string, Reach>>();

/** Opens a stream to a service of an agent over the tailnet. @throws ApiError, UnreachableError */
export function openTailnetTunnel(client: Client, agentId: string, options: AgentService): Promise<TailnetTunnel> {
  const known = reaches.get(client) ?? new Map<string, Reach>();
  reaches.set(client, known);
  const reach = known.get(agentId) ?? new Reach(client, agentId, () => known.delete(agentId));
  known.set(agentId, reach);
  return reach.open(options);
}

async function openService(member: TailnetMember, { service, port, signal }: AgentService): Promise<TailnetTunnel> {
  const plain = (stream: Duplex): TailnetTunnel => ({ stream, path: () => '' });
  switch (service) {
    case 'ssh':
      return plain(await member.connect(SSH_PORT, signal));
    case 'tcp':
      return plain(await member.connect(port!, signal));
    case 'udp':
      return plain(datagrams(member, port!));
    case 'ping':
      return pings(member);
    case 'speedtest':
      return plain(speedtest(await member.connect(SPEEDTEST_PORT, signal)));
    default:
      throw new RangeError(`unknown service ${service}`);
  }
}

/** Framed datagrams, as a tunnel of the server carries them. */
function datagrams(member: TailnetMember, port: number): Duplex {
  const reader = new DatagramReader();
  const flow = member.openUdp(port, {
    // the receiver is slow: datagrams are lost, as on any network
    onMessage: (payload) => stream.readableLength < stream.readableHighWaterMark && stream.push(frameDatagram(payload)),
    onClose: () => stream.destroy(),
  });
  const stream: Duplex = new Duplex({
    read() {},
    write(chunk: Buffer, _encoding, done) {
      for (const datagram of reader.write(chunk)) flow.send(datagram);
      done();
    },
    destroy(err, done) {
      flow.close();
      done(err);
    },
  });
  return stream;
}

/** Sends back each probe when the agent has answered a ping. */
function pings(member: TailnetMember): TailnetTunnel {
  const ended = new AbortController();
  let path = '';
  const answer = async (probe: Buffer) => {
    // a lost ping has no answer
    const ping = await member.ping(ended.signal).catch(() => undefined);
    if (!ping || stream.destroyed) return;
    path = ping.path;
    stream.push(probe);
  };
  let held: Buffer = Buffer.alloc(0);
  const stream = new Duplex({
    read() {},
    write(chunk: Buffer, _encoding, done) {
      held = Buffer.concat([held, chunk]);
      for (; held.length >= PROBE_BYTES; held = held.subarray(PROBE_BYTES))
        void answer(Buffer.from(held.subarray(0, PROBE_BYTES)));
      done();
    },
    destroy(err, done) {
      ended.abort();
      done(err);
    },
  });
  return { stream, path: () => path };
}
