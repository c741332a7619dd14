import { once } from 'node:events';
import { createServer as createHttpServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { TestContext } from 'node:test';
import {
  acceptWebSocket,
  byteStream,
  dialWebSocket,
  type WebSocketConnection,
  type WebSocketOptions,
} from '../websocket/index.ts';

// Shared by this package's tests: real sockets on the loopback that end with the test.

/** Two ends of one TCP connection. */
export async function socketPair(t: TestContext): Promise<[Socket, Socket]> {
  const server = createServer({ allowHalfOpen: true });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const near = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1', allowHalfOpen: true });
  const [far] = (await once(server, 'connection')) as [Socket];
  if (near.connecting) await once(near, 'connect');
  server.close();
  for (const socket of [near, far]) {
    socket.setNoDelay(true);
    socket.on('error', () => {});
    t.after(() => socket.destroy());
  }
  return [near, far];
}

/** An HTTP server that passes its upgrades to a handler. Returns its ws:// address. */
export async function upgradeServer(
  t: TestContext,
  onUpgrade: (req: IncomingMessage, socket: Duplex, head: Buffer) => void,
): Promise<string> {
  const server = createHttpServer((_req, res) => res.writeHead(404).end());
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
  });
  server.on('upgrade', onUpgrade);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A WebSocket with both ends in this process: [client, server]. */
export async function webSocketPair(
  t: TestContext,
  options: WebSocketOptions = {},
): Promise<[WebSocketConnection, WebSocketConnection]> {
  let far: WebSocketConnection | undefined;
  const url = await upgradeServer(t, (req, socket, head) => {
    far = acceptWebSocket(req, socket, head, options);
  });
  const { connection } = await dialWebSocket(url, options);
  t.after(() => connection.destroy());
  return [connection, far!];
}

/** A WebSocket as two byte streams: [client, server]. */
export async function byteStreamPair(t: TestContext): Promise<[Duplex, Duplex]> {
  const [near, far] = await webSocketPair(t);
  return [byteStream(near), byteStream(far)];
}

/** Collects the bytes that a raw socket receives and returns them piece by piece. */
export class Inbox {
  #bytes: Buffer = Buffer.alloc(0);
  #ended = false;
  #wake: () => void = () => {};

  constructor(stream: Duplex) {
    stream.on('data', (chunk: Buffer) => {
      this.#bytes = Buffer.concat([this.#bytes, chunk]);
      this.#wake();
    });
    const end = () => {
      this.#ended = true;
      this.#wake();
    };
    stream.on('end', end);
    stream.on('close', end);
    stream.on('error', end);
  }

  /** Returns the next `count` bytes. Rejects when the stream ends before or after `ms`. */
  async take(count: number, ms = 60_000): Promise<Buffer> {
    await this.#until(() => this.#bytes.length >= count || this.#ended, ms);
    if (this.#bytes.length < count) {
      throw new Error(`ended after ${this.#bytes.length} of ${count} bytes: ${this.#bytes.toString('hex')}`);
    }
    const taken = this.#bytes.subarray(0, count);
    this.#bytes = this.#bytes.subarray(count);
    return taken;
  }

  async hex(count: number): Promise<string> {
    return (await this.take(count)).toString('hex');
  }

  /** Returns everything that came until the peer ended. */
  async rest(ms = 60_000): Promise<Buffer> {
    await this.#until(() => this.#ended, ms);
    return this.#bytes;
  }

  #until(holds: () => boolean, ms: number): Promise<void> {
    if (holds()) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error(`nothing within ${ms} ms; so far ${this.#bytes.toString('hex').slice(0, 200)}`)),
        ms,
      );
      this.#wake = () => {
        if (!holds()) return;
        clearTimeout(timer);
        this.#wake = () => {};
        resolve();
      };
    });
  }
}

/** Waits until `holds`, checking every few ms. Rejects with `what` after `ms`. */
export async function eventually(holds: () => boolean | Promise<boolean>, what: string, ms = 60_000): Promise<void> {
  const deadline = performance.now() + ms;
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`not within ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

export function fromHex(hex: string): Buffer {
  return Buffer.from(hex.replace(/\s/g, ''), 'hex');
}

/** A small seeded generator, so that a failing fuzz run can be repeated. */
export function seededRandom(seed: number): (below: number) => number {
  let state = seed >>> 0 || 1;
  return (below) => {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state % below;
  };
}
