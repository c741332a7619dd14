import type { Readable, Writable } from 'node:stream';
import { countCarried } from '@ropewalk/wire/collect-young';
import { widenSshWindow } from '@ropewalk/wire/ssh-window';
import type { ServerChannel } from 'ssh2';

/** The part of ssh2's channel that is needed to write to it in turn. Bound to the pinned version of ssh2. */
interface ChannelInternals {
  _client: { _protocol: Protocol; _sock: Writable };
  outgoing: { id: number; window: number; packetSize: number; state: string };
  _waitWindow: boolean;
  _chunkcb: (() => void) | undefined;
  _write: (data: Buffer, encoding: string, done: Done) => void;
  stderr: { _write: (data: Buffer, encoding: string, done: Done) => void };
}

interface Protocol {
  channelData(id: number, data: Buffer): void;
  channelExtData(id: number, data: Buffer, type: number): void;
}

type Done = (err?: Error | null) => void;

interface Pending {
  data: Buffer;
  stderr: boolean;
  done: Done;
}

const STDERR = 1;

const MAX_MORE = 6 * 1024 * 1024;

/** Lets the client fill a connection with a long round trip. */
export function widen(channel: ServerChannel): void {
  const { _sock } = (channel as unknown as ChannelInternals)._client;
  const { roundTripMs = 0 } = _sock as { roundTripMs?: number };
  widenSshWindow(channel, roundTripMs, MAX_MORE);
}

/**
 * Replaces how a server's channel waits for its window. ssh2 keeps one slot for each of output and errors. When both
 * wait, it sends the former twice and the latter never. A write after the close never calls back.
 */
export function fairWindow(channel: ServerChannel): void {
  const inner = channel as unknown as ChannelInternals;
  const { outgoing } = inner;
  const protocol = inner._client._protocol;
  const transport = inner._client._sock;
  const queue: Pending[] = [];
  // ssh2 encrypts as much as the window allows, even if much of it already waits to be sent.
  let held = false;
  const hold = () => {
    if (held || !transport.writableNeedDrain) return held;
    held = true;
    transport.once('drain', () => {
      held = false;
      flush();
    });
    return true;
  };
  const flush = () => {
    while (queue.length > 0) {
      const first = queue[0]!;
      if (outgoing.state !== 'open') {
        for (const { done } of queue.splice(0)) done(new Error('the channel is closed'));
        return;
      }
      while (first.data.length > 0 && outgoing.window > 0) {
        if (hold()) return;
        const part = first.data.subarray(0, Math.min(outgoing.window, outgoing.packetSize));
        if (first.stderr) protocol.channelExtData(outgoing.id, part, STDERR);
        else protocol.channelData(outgoing.id, part);
        outgoing.window -= part.length;
        first.data = first.data.subarray(part.length);
      }
      if (first.data.length > 0) {
        inner._waitWindow = true;
        inner._chunkcb = flush;
        return;
      }
      queue.shift();
      first.done();
    }
  };
  const write = (stderr: boolean) => (data: Buffer, _encoding: string, done: Done) => {
    queue.push({ data, stderr, done });
    if (queue.length === 1) flush();
  };
  inner._write = write(false);
  inner.stderr._write = write(true);
  channel.on('error', () => {});
  channel.stderr.on('error', () => {});
  channel.on('close', flush);
}

/** Pieces of this size get their own packet. Smaller ones that come together are joined. */
const JOIN_BYTES = 32 * 1024;
/** The maximum number of bytes that wait in the channel before its source is paused. */
const HIGH_WATER = 256 * 1024;

/**
 * Copies a source's bytes to a channel: joined, with backpressure. Resolves when the source has ended and the channel
 * has accepted everything, or when the channel is gone. It does not end the channel.
 */
export function pump(source: Readable, to: Writable, carried: (bytes: number) => void): Promise<void> {
  return new Promise((resolve) => {
    let parts: Buffer[] = [];
    let size = 0;
    let scheduled: NodeJS.Immediate | undefined;
    let closed = false;
    const settle = () => {
      if (closed && size === 0 && to.writableLength === 0) resolve();
    };
    const flush = () => {
      clearImmediate(scheduled);
      scheduled = undefined;
      if (size > 0 && to.writable) {
        const data = parts.length === 1 ? parts[0]! : Buffer.concat(parts, size);
        carried(size);
        to.write(data, () => {
          if (to.writableLength <= HIGH_WATER / 2) source.resume();
          settle();
        });
      }
      parts = [];
      size = 0;
      if (to.writableLength > HIGH_WATER) source.pause();
      settle();
    };
    source.on('data', (chunk: Buffer) => {
      countCarried(chunk.length);
      parts.push(chunk);
      size += chunk.length;
      if (size >= JOIN_BYTES) flush();
      else scheduled ??= setImmediate(flush);
    });
    source.on('error', () => {});
    const ended = () => {
      closed = true;
      flush();
    };
    source.on('end', ended);
    source.on('close', ended);
    to.on('close', () => {
      source.resume();
      resolve();
    });
  });
}
