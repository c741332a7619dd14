import assert from 'node:assert/strict';
import { mock } from 'node:test';
import { eventually } from '@ropewalk/testkit';
import { collectGarbage } from '@ropewalk/testkit/garbage';
import type { WebSocketClose, WebSocketConnection } from '@ropewalk/wire/websocket';
import { encodeHeader, FLAG, TYPE, type YamuxHeader, YamuxParser } from '@ropewalk/wire/yamux/frames';

/** A yamux peer that sends arbitrary frames and records the server's answers. */
export class Peer {
  readonly connection: WebSocketConnection;
  readonly headers: YamuxHeader[] = [];

  constructor(connection: WebSocketConnection) {
    this.connection = connection;
    const parser = new YamuxParser({ header: (header) => this.headers.push(header), payload: () => {} });
    connection.on('binary', (message) => parser.push(message));
  }

  send(...parts: Uint8Array[]): void {
    this.connection.sendBinary(Buffer.concat(parts));
  }

  answered(what: string, holds: (header: YamuxHeader) => boolean): Promise<YamuxHeader> {
    return eventually(what, async () => this.headers.find(holds));
  }

  /** Checks that the session answers a ping. */
  async alive(): Promise<void> {
    const id = 1 + Math.floor(Math.random() * 1e9);
    this.send(encodeHeader(TYPE.ping, FLAG.syn, 0, id));
    await this.answered('a ping is answered', ({ type, flags, length }) => {
      return type === TYPE.ping && flags === FLAG.ack && length === id;
    });
  }

  async reset(streamId: number): Promise<void> {
    await this.answered(`stream ${streamId} is reset`, (header) => {
      return header.streamId === streamId && (header.flags & FLAG.rst) !== 0;
    });
  }

  /** Resolves with how the server ended the connection. */
  async closed(): Promise<WebSocketClose> {
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      this.connection.destroy();
    }, 20_000);
    const close = await this.connection.closed;
    clearTimeout(timer);
    assert.ok(!late, 'the server did not end the connection');
    return close;
  }
}

/** How many opened streams were acknowledged, and how many reset. */
export function verdicts({ headers }: Peer): { acknowledged: number; reset: number } {
  const count = (flag: number) => {
    return headers.filter(({ type, flags }) => type === TYPE.windowUpdate && flags === flag).length;
  };
  return { acknowledged: count(FLAG.ack), reset: count(FLAG.rst) };
}

export const syn = (id: number) => encodeHeader(TYPE.windowUpdate, FLAG.syn, id, 0);
export const fin = (id: number) => encodeHeader(TYPE.windowUpdate, FLAG.fin, id, 0);
export const data = (id: number, bytes: Uint8Array) =>
  Buffer.concat([encodeHeader(TYPE.data, 0, id, bytes.length), bytes]);

export interface Timer {
  run: () => void;
  ms: number;
}

/** Replaces the timers that are set meanwhile. The test decides when they run. */
export async function timersOf(
  kind: 'setInterval' | 'setTimeout',
  during: () => Promise<void> | void,
): Promise<Timer[]> {
  const taken: Timer[] = [];
  const real = globalThis[kind] as (run: () => void, ms: number) => NodeJS.Timeout;
  const taking = mock.method(globalThis, kind, (run: () => void, ms: number) => {
    taken.push({ run, ms });
    return real(() => {}, 1e9).unref();
  });
  try {
    await during();
  } finally {
    taking.mock.restore();
  }
  return taken;
}

/** Bytes that this process holds on its heap and in buffers, after collection. */
export async function memory(): Promise<number> {
  for (let turn = 0; turn < 3; turn++) {
    collectGarbage();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}
