// TCP segments (RFC 9293) with the options of RFC 7323 (window scale, timestamps) and RFC 2018 (SACK). Sequence numbers
// are unsigned integers of 32 bits.

import { IPV6_HEADER_BYTES, PROTOCOL, writeChecksum, writeIpv6Header } from '../../ipv6.ts';
import { allocatePacket } from '../../packet-memory.ts';
import { MAX_PACKET_BYTES, MTU } from '../../wireguard/session.ts';

export const FLAG = { fin: 1, syn: 2, rst: 4, psh: 8, ack: 16 } as const;
const HEADER_BYTES = 20;
const OPTION = { end: 0, none: 1, mss: 2, windowScale: 3, sackPermitted: 4, sack: 5, timestamps: 8 } as const;
const HEADERS_BYTES = IPV6_HEADER_BYTES + HEADER_BYTES;
/** The longest segment of a packet of this length, options included. */
export const segmentBytes = (packetBytes: number): number => packetBytes - HEADERS_BYTES;
/** … of a packet that every path carries. */
export const MSS: number = segmentBytes(MTU);
/** … of any packet. A SYN offers it, and each side then sends what its path carries. */
export const MAX_MSS: number = segmentBytes(MAX_PACKET_BYTES);
export const TIMESTAMP_OPTION_BYTES = 12;
/** More do not fit next to timestamps. */
export const MAX_SACK_BLOCKS = 3;
/** A larger scale has no meaning. */
const MAX_WINDOW_SCALE = 14;

const TCP = IPV6_HEADER_BYTES;
const SOURCE_PORT = TCP;
const DESTINATION_PORT = TCP + 2;
const SEQUENCE = TCP + 4;
const ACKNOWLEDGMENT = TCP + 8;
const DATA_OFFSET = TCP + 12;
const FLAGS = TCP + 13;
const WINDOW = TCP + 14;
const CHECKSUM = TCP + 16;
const OPTIONS = TCP + HEADER_BYTES;

function read32(packet: Buffer, at: number): number {
  return ((packet[at]! << 24) | (packet[at + 1]! << 16) | (packet[at + 2]! << 8) | packet[at + 3]!) >>> 0;
}

function write32(packet: Buffer, at: number, value: number): void {
  packet[at] = value >>> 24;
  packet[at + 1] = value >>> 16;
  packet[at + 2] = value >>> 8;
  packet[at + 3] = value;
}

/** A received segment. One object is reused for all of them. */
export class Segment {
  sourcePort = 0;
  port = 0;
  seq = 0;
  ack = 0;
  flags = 0;
  /** Not scaled. */
  window = 0;
  /** The payload: offsets in the packet. */
  start = 0;
  end = 0;
  /** 0: absent. */
  mss = 0;
  /** -1: absent. */
  windowScale = -1;
  isSackPermitted = false;
  hasTimestamps = false;
  timestamp = 0;
  echo = 0;
  /** Pairs of first and one past the last sequence number. */
  readonly sacks: number[] = [];

  /** Reads the segment of a packet whose checksum is right. False if its header is malformed. */
  read(packet: Buffer): boolean {
    if (packet.length < OPTIONS) return false;
    const start = TCP + ((packet[DATA_OFFSET]! >> 4) << 2);
    if (start < OPTIONS || start > packet.length) return false;
    this.sourcePort = (packet[SOURCE_PORT]! << 8) | packet[SOURCE_PORT + 1]!;
    this.port = (packet[DESTINATION_PORT]! << 8) | packet[DESTINATION_PORT + 1]!;
    this.seq = read32(packet, SEQUENCE);
    this.ack = read32(packet, ACKNOWLEDGMENT);
    this.flags = packet[FLAGS]!;
    this.window = (packet[WINDOW]! << 8) | packet[WINDOW + 1]!;
    this.start = start;
    this.end = packet.length;
    this.mss = 0;
    this.windowScale = -1;
    this.isSackPermitted = false;
    this.hasTimestamps = false;
    this.sacks.length = 0;
    if (start > OPTIONS) this.#readOptions(packet, start);
    return true;
  }

  is(flag: number): boolean {
    return (this.flags & flag) !== 0;
  }

  /** What the segment uses of the sequence space. */
  get length(): number {
    return this.end - this.start + (this.flags & FLAG.syn ? 1 : 0) + (this.flags & FLAG.fin ? 1 : 0);
  }

  /** Options after a malformed one are ignored. */
  #readOptions(packet: Buffer, end: number): void {
    for (let at = OPTIONS; at < end; ) {
      const kind = packet[at]!;
      if (kind === OPTION.end) return;
      if (kind === OPTION.none) {
        at++;
        continue;
      }
      const length = at + 1 < end ? packet[at + 1]! : 0;
      if (length < 2 || at + length > end) return;
      this.#readOption(packet, at, kind, length);
      at += length;
    }
  }

  #readOption(packet: Buffer, at: number, kind: number, length: number): void {
    if (kind === OPTION.timestamps && length === 10) {
      this.hasTimestamps = true;
      this.timestamp = read32(packet, at + 2);
      this.echo = read32(packet, at + 6);
    } else if (kind === OPTION.sack && length % 8 === 2) {
      for (let block = at + 2; block < at + length; block += 8)
        this.sacks.push(read32(packet, block), read32(packet, block + 4));
    } else if (kind === OPTION.mss && length === 4) this.mss = packet.readUInt16BE(at + 2);
    else if (kind === OPTION.windowScale && length === 3)
      this.windowScale = Math.min(packet[at + 2]!, MAX_WINDOW_SCALE);
    else if (kind === OPTION.sackPermitted && length === 2) this.isSackPermitted = true;
  }
}

/** A flow as both headers name it. */
export interface Route {
  peer: Buffer;
  peerPort: number;
  address: Buffer;
  port: number;
}

/** The headers of a flow's segments without options, from which every one begins. */
export function headerOf(route: Route): Buffer {
  const header = Buffer.alloc(OPTIONS);
  writeIpv6Header(header, PROTOCOL.tcp, route.address, route.peer);
  header.writeUInt16BE(route.port, SOURCE_PORT);
  header.writeUInt16BE(route.peerPort, DESTINATION_PORT);
  return header;
}

/** The part of a segment that follows from the state of its connection. */
export interface Outgoing {
  header: Buffer;
  seq: number;
  ack: number;
  /** As it is in the header, scaled. */
  window: number;
  /** Absent if the connection has no timestamps. */
  timestamps: { value: number; echo: number } | undefined;
}

/** Allocates a packet with room for `optionBytes` and `payloadBytes`, and writes all but options and checksum. */
function allocate(out: Outgoing, flags: number, optionBytes: number, payloadBytes: number): Buffer {
  const packet = allocatePacket(OPTIONS + optionBytes + payloadBytes);
  packet.set(out.header);
  const length = packet.length - IPV6_HEADER_BYTES;
  packet[4] = length >> 8;
  packet[5] = length;
  write32(packet, SEQUENCE, out.seq);
  write32(packet, ACKNOWLEDGMENT, flags & FLAG.ack ? out.ack : 0);
  packet[DATA_OFFSET] = ((HEADER_BYTES + optionBytes) >> 2) << 4;
  packet[FLAGS] = flags;
  packet[WINDOW] = out.window >> 8;
  packet[WINDOW + 1] = out.window;
  return packet;
}

function writeTimestamps(packet: Buffer, at: number, { value, echo }: { value: number; echo: number }): void {
  write32(packet, at, 0x0101080a);
  write32(packet, at + 4, value);
  write32(packet, at + 8, echo);
}

function finish(packet: Buffer): Buffer {
  writeChecksum(packet, CHECKSUM);
  return packet;
}

/** A segment with data, which `copy` writes at an offset of the packet. */
export function dataSegment(
  out: Outgoing,
  flags: number,
  payloadBytes: number,
  copy: (packet: Buffer, at: number) => void,
): Buffer {
  const optionBytes = out.timestamps ? TIMESTAMP_OPTION_BYTES : 0;
  const packet = allocate(out, flags, optionBytes, payloadBytes);
  if (out.timestamps) writeTimestamps(packet, OPTIONS, out.timestamps);
  if (payloadBytes > 0) copy(packet, OPTIONS + optionBytes);
  return finish(packet);
}

/** A segment without data. `sacks` are pairs of sequence numbers, up to MAX_SACK_BLOCKS of them. */
export function controlSegment(out: Outgoing, flags: number, sacks: readonly number[] = []): Buffer {
  const timestampBytes = out.timestamps ? TIMESTAMP_OPTION_BYTES : 0;
  const sackBytes = sacks.length > 0 ? 4 + 4 * sacks.length : 0;
  const packet = allocate(out, flags, timestampBytes + sackBytes, 0);
  if (out.timestamps) writeTimestamps(packet, OPTIONS, out.timestamps);
  if (sackBytes > 0) {
    const at = OPTIONS + timestampBytes;
    write32(packet, at, 0x01010000 | (OPTION.sack << 8) | (sackBytes - 2));
    for (let i = 0; i < sacks.length; i++) write32(packet, at + 4 + 4 * i, sacks[i]!);
  }
  return finish(packet);
}

/** A SYN or its answer. Options that the answer may not have are undefined or false. */
export function synSegment(
  out: Outgoing,
  flags: number,
  { windowScale, isSackPermitted }: { windowScale: number | undefined; isSackPermitted: boolean },
): Buffer {
  const options: number[] = [OPTION.mss, 4, MAX_MSS >> 8, MAX_MSS & 0xff];
  if (isSackPermitted) options.push(OPTION.none, OPTION.none, OPTION.sackPermitted, 2);
  if (windowScale !== undefined) options.push(OPTION.none, OPTION.windowScale, 3, windowScale);
  const timestampBytes = out.timestamps ? TIMESTAMP_OPTION_BYTES : 0;
  const packet = allocate(out, flags, options.length + timestampBytes, 0);
  packet.set(options, OPTIONS);
  if (out.timestamps) writeTimestamps(packet, OPTIONS + options.length, out.timestamps);
  return finish(packet);
}

/** An acknowledgment of a connection that has ended. */
export function ackFor(route: Route, seq: number, ack: number): Buffer {
  return controlSegment({ header: headerOf(route), seq, ack, window: 0, timestamps: undefined }, FLAG.ack);
}

/** The RST that answers a segment without a connection, which is not a RST itself (RFC 9293, 3.10.7.1). */
export function resetFor(route: Route, segment: Segment): Buffer {
  const hasAck = segment.is(FLAG.ack);
  const out: Outgoing = {
    header: headerOf(route),
    seq: hasAck ? segment.ack : 0,
    ack: (segment.seq + segment.length) >>> 0,
    window: 0,
    timestamps: undefined,
  };
  return controlSegment(out, hasAck ? FLAG.rst : FLAG.rst | FLAG.ack);
}
