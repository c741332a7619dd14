// Echo requests and their answers, in two forms: ICMPv6 (RFC 4443), and TSMP, with which upstream's clients find out
// whether a node is reachable. A TSMP ping is `p` and 8 bytes. Its pong is `o`, the same 8 bytes and a port (u16) that
// no client of ours has: 0. TSMP has no checksum.
import { randomBytes } from 'node:crypto';
import {
  checksum,
  DESTINATION_OFFSET,
  IPV6_HEADER_BYTES,
  PROTOCOL,
  SOURCE_OFFSET,
  writeChecksum,
  writeIpv6Header,
} from '../ipv6.ts';
import { type Network, NetworkError } from './network.ts';
import { createAlarm } from './timers.ts';

const ECHO_REQUEST = 128;
const ECHO_REPLY = 129;
const ICMP_HEADER_BYTES = 8;
const TSMP_PING = 0x70;
const TSMP_PONG = 0x6f;
const TOKEN_BYTES = 8;
const TSMP_PING_BYTES = 1 + TOKEN_BYTES;
const TSMP_PONG_BYTES = TSMP_PING_BYTES + 2;
const PAYLOAD = IPV6_HEADER_BYTES;
/** Maximum number of own requests that wait for an answer. */
const MAX_PINGS = 256;
const TIMEOUT_MS = 5_000;

export interface PingOptions {
  /** Default icmp. */
  protocol?: 'icmp' | 'tsmp';
  /** Default 5 s. */
  timeoutMs?: number;
  signal?: AbortSignal;
}

export class Echo {
  readonly #network: Network;
  /** By peer and token. */
  readonly #waiting = new Map<string, { answered: (now: number) => void; failed: (reason: unknown) => void }>();

  constructor(network: Network) {
    this.#network = network;
  }

  /**
   * Asks a peer for an answer. Returns the round trip in ms. Rejects with a NetworkError (ETIMEDOUT) after the timeout,
   * and with the signal's reason.
   */
  async ping(to: Buffer, { protocol = 'icmp', timeoutMs = TIMEOUT_MS, signal }: PingOptions = {}): Promise<number> {
    signal?.throwIfAborted();
    if (this.#waiting.size >= MAX_PINGS) throw new NetworkError('ENOBUFS', 'Too many pings wait for an answer');
    const { timers } = this.#network;
    const token = randomBytes(TOKEN_BYTES);
    const key = to.toString('latin1') + token.toString('latin1');
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    const sentAt = this.#network.now();
    this.#waiting.set(key, { answered: (now) => resolve(now - sentAt), failed: reject });
    const alarm = createAlarm(() =>
      reject(new NetworkError('ETIMEDOUT', `No answer to a ping within ${timeoutMs} ms`)),
    );
    const aborted = () => reject(signal!.reason);
    signal?.addEventListener('abort', aborted);
    timers.set(alarm, sentAt + timeoutMs);
    this.#network.send(protocol === 'icmp' ? this.#icmp(to, token) : this.#tsmp(to, token));
    try {
      return await promise;
    } finally {
      timers.cancel(alarm);
      signal?.removeEventListener('abort', aborted);
      this.#waiting.delete(key);
    }
  }

  /** Ends all own requests. */
  close(reason: Error): void {
    for (const waiting of this.#waiting.values()) waiting.failed(reason);
  }

  #packet(to: Buffer, protocol: number, payloadBytes: number): Buffer {
    const packet = Buffer.alloc(IPV6_HEADER_BYTES + payloadBytes);
    writeIpv6Header(packet, protocol, this.#network.sourceFor(to), to);
    return packet;
  }

  #icmp(to: Buffer, token: Buffer): Buffer {
    const packet = this.#packet(to, PROTOCOL.icmpv6, ICMP_HEADER_BYTES + TOKEN_BYTES);
    packet[PAYLOAD] = ECHO_REQUEST;
    packet.set(token.subarray(0, 4), PAYLOAD + 4); // identifier and sequence number
    packet.set(token, PAYLOAD + ICMP_HEADER_BYTES);
    writeChecksum(packet, PAYLOAD + 2);
    return packet;
  }

  #tsmp(to: Buffer, token: Buffer): Buffer {
    const packet = this.#packet(to, PROTOCOL.tsmp, TSMP_PING_BYTES);
    packet[PAYLOAD] = TSMP_PING;
    packet.set(token, PAYLOAD + 1);
    return packet;
  }

  receiveIcmp(packet: Buffer): void {
    if (packet.length < PAYLOAD + ICMP_HEADER_BYTES || packet[PAYLOAD + 1] !== 0 || checksum(packet) !== 0) return;
    if (packet[PAYLOAD] === ECHO_REQUEST) {
      const reply = this.#reply(packet, packet.length);
      reply[PAYLOAD] = ECHO_REPLY;
      writeChecksum(reply, PAYLOAD + 2);
      this.#network.send(reply);
    } else if (packet[PAYLOAD] === ECHO_REPLY) this.#answered(packet, PAYLOAD + ICMP_HEADER_BYTES);
  }

  receiveTsmp(packet: Buffer): void {
    if (packet.length < PAYLOAD + TSMP_PING_BYTES) return;
    if (packet[PAYLOAD] === TSMP_PING) {
      const reply = this.#reply(packet, PAYLOAD + TSMP_PONG_BYTES);
      reply[PAYLOAD] = TSMP_PONG;
      this.#network.send(reply);
    } else if (packet[PAYLOAD] === TSMP_PONG) this.#answered(packet, PAYLOAD + 1);
  }

  /** The start of the packet in a new one of this length, with its addresses exchanged. */
  #reply(packet: Buffer, length: number): Buffer {
    const reply = Buffer.alloc(length);
    packet.copy(reply, 0, 0, packet[6] === PROTOCOL.tsmp ? PAYLOAD + TSMP_PING_BYTES : packet.length);
    const source = packet.subarray(DESTINATION_OFFSET, IPV6_HEADER_BYTES);
    const destination = packet.subarray(SOURCE_OFFSET, DESTINATION_OFFSET);
    writeIpv6Header(reply, packet[6]!, source, destination);
    return reply;
  }

  #answered(packet: Buffer, token: number): void {
    if (this.#waiting.size === 0 || packet.length < token + TOKEN_BYTES) return;
    const key =
      packet.toString('latin1', SOURCE_OFFSET, DESTINATION_OFFSET) +
      packet.toString('latin1', token, token + TOKEN_BYTES);
    this.#waiting.get(key)?.answered(this.#network.now());
  }
}
