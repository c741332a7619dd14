import type { Duplex } from 'node:stream';
import { isDisco } from '../disco.ts';
import { encodeFrame, encodePeerGone, FRAME, PACKET_OFFSET } from './frames.ts';
import { PacketQueue, type QueueBudget } from './packet-queue.ts';

const MAX_QUEUED_PACKETS = 512;
/** More than that many packets of the usual size. */
const MAX_QUEUED_BYTES = 1024 * 1024;
const MAX_GONE = 512;
/** A frame whose chunk of received bytes is longer than the frame by this factor is copied. */
const MAX_RETAINED_RATIO = 64;

/**
 * Writes frames to one connection of a relay. All frames of one turn of the event loop are written together. While the
 * connection is slow, packets wait in two queues, so that disco packets overtake data, and of each answer only the
 * latest waits: a client that does not read holds a bounded amount of memory.
 */
export class Outbox {
  readonly #stream: Duplex;
  readonly #now: () => number;
  readonly #disco: PacketQueue;
  readonly #data: PacketQueue;
  /** Answers that wait, by type. */
  readonly #answers = new Map<number, Buffer>();
  readonly #gone = new Map<string, Buffer>();
  #corked = false;
  #blockedSince: number | undefined;

  constructor(stream: Duplex, now: () => number, budget?: QueueBudget) {
    this.#disco = new PacketQueue(MAX_QUEUED_PACKETS, MAX_QUEUED_BYTES, budget);
    this.#data = new PacketQueue(MAX_QUEUED_PACKETS, MAX_QUEUED_BYTES, budget);
    this.#stream = stream;
    this.#now = now;
    stream.on('drain', () => this.#drain());
  }

  /** Counts waiting packets in the budget of all connections of one key, too. Only before the first packet. */
  shareWithKey(budget: QueueBudget): void {
    this.#disco.shareWithKey(budget);
    this.#data.shareWithKey(budget);
  }

  /** Milliseconds for which the connection has accepted nothing. 0 while it accepts frames. */
  get blockedMs(): number {
    return this.#blockedSince === undefined ? 0 : this.#now() - this.#blockedSince;
  }

  get queuedPackets(): number {
    return this.#disco.length + this.#data.length;
  }

  get queuedBytes(): number {
    return this.#disco.bytes + this.#data.bytes;
  }

  /**
   * Writes a frame with a packet, or queues a copy. Returns the number of packets that were dropped. `offset`: of the
   * packet in the frame.
   */
  packet(frame: Buffer, offset = PACKET_OFFSET): number {
    if (this.#blockedSince === undefined) {
      // the stream may hold many small frames, each with its whole chunk
      const isSmallPart = frame.length * MAX_RETAINED_RATIO < frame.buffer.byteLength;
      this.#write(isSmallPart ? Buffer.from(frame) : frame);
      return 0;
    }
    // a view would keep all bytes that arrived with the packet
    const queue = isDisco(frame.subarray(offset)) ? this.#disco : this.#data;
    return queue.push(Buffer.from(frame));
  }

  /** Writes a frame of which only the latest of its type matters. */
  answer(frame: Buffer): void {
    if (this.#blockedSince === undefined) this.#write(frame);
    else this.#answers.set(frame[0]!, frame);
  }

  /** Announces that a peer is gone, by its key. */
  gone(key: Buffer, reason: number): void {
    const frame = encodePeerGone(key, reason);
    if (this.#blockedSince === undefined) this.#write(frame);
    else if (this.#gone.size < MAX_GONE) this.#gone.set(key.toString('latin1'), frame);
  }

  keepAlive(): void {
    if (this.#blockedSince === undefined) this.#write(encodeFrame(FRAME.keepAlive));
  }

  /** Drops everything that waits. */
  clear(): void {
    this.#answers.clear();
    this.#gone.clear();
    this.#disco.clear();
    this.#data.clear();
  }

  #write(frame: Buffer): void {
    if (this.#stream.destroyed || this.#stream.writableEnded) return;
    if (!this.#corked) {
      this.#corked = true;
      this.#stream.cork();
      setImmediate(() => this.#uncork());
    }
    if (this.#stream.write(frame)) return;
    this.#blockedSince = this.#now();
    this.#uncork();
  }

  #uncork(): void {
    if (!this.#corked) return;
    this.#corked = false;
    this.#stream.uncork();
  }

  #drain(): void {
    this.#blockedSince = undefined;
    for (const waiting of [this.#answers, this.#gone] as Map<unknown, Buffer>[])
      for (const [key, frame] of waiting) {
        if (this.#blockedSince !== undefined) return;
        waiting.delete(key);
        this.#write(frame);
      }
    while (this.#blockedSince === undefined) {
      const frame = this.#disco.shift() ?? this.#data.shift();
      if (!frame) return;
      this.#write(frame);
    }
  }
}
