import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { TestContext } from 'node:test';
import { acceptWebSocket, byteStream } from '@ropewalk/wire/websocket';
import type { RelayMap } from '../derp/map.ts';
import type { DerpRelay } from '../derp/relay.ts';
import { MAX_MESSAGE_BYTES, RELAY_SUBPROTOCOL } from '../derp/websocket.ts';

/** How a relay's HTTP server treats upgrades to DERP: as a relay, or as proxies that allow only WebSockets do. */
export type UpgradeTreatment = 'accept' | 'reject' | 'fail';

/** A relay behind a real HTTP server, as the product has it. */
export class RelayServer {
  readonly #server: Server;
  readonly #scheme: string;
  readonly #sockets = new Set<Socket>();
  relay: DerpRelay;
  treatment: UpgradeTreatment = 'accept';
  /** The upgrades that it saw, such as `DERP`. */
  readonly upgrades: string[] = [];

  private constructor(relay: DerpRelay, server: Server, scheme: string) {
    this.relay = relay;
    this.#scheme = scheme;
    this.#server = server;
    server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => this.#sockets.delete(socket));
    });
    server.on('request', (req, res) => res.writeHead(req.url === '/derp/latency-check' ? 200 : 404).end());
    server.on('upgrade', (req: IncomingMessage, socket: Duplex, head: Buffer) => this.#upgrade(req, socket, head));
  }

  /** `port` 0 takes a free one. `tls` makes it an https server. */
  static async start(t: TestContext, relay: DerpRelay, { port = 0, tls }: { port?: number; tls?: object } = {}) {
    const server = tls
      ? new RelayServer(relay, createTlsServer(tls), 'https')
      : new RelayServer(relay, createServer(), 'http');
    server.#server.listen(port, '127.0.0.1');
    await once(server.#server, 'listening');
    t.after(() => server.stop());
    return server;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `${this.#scheme}://127.0.0.1:${this.port}`;
  }

  /** Ends all connections and stops to listen. */
  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    if (!this.#server.listening) return;
    this.#server.close();
    await once(this.#server, 'close');
  }

  #upgrade(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    const protocol = String(req.headers.upgrade);
    this.upgrades.push(protocol);
    if (protocol.toLowerCase() === 'websocket') {
      void this.relay.accept(
        byteStream(acceptWebSocket(req, socket, head, { protocol: RELAY_SUBPROTOCOL }), {
          maxMessageBytes: MAX_MESSAGE_BYTES,
        }),
      );
      return;
    }
    if (this.treatment !== 'accept') {
      socket.end(`HTTP/1.1 ${this.treatment === 'reject' ? 400 : 502} \r\nContent-Length: 0\r\n\r\n`);
      return;
    }
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: DERP\r\nConnection: Upgrade\r\nDerp-Version: 2\r\n\r\n');
    if (head.length > 0) socket.unshift(head);
    void this.relay.accept(socket);
  }
}

/** A map whose regions have one relay each, at these URLs. */
export function mapOf(urls: Record<number, string>, stunPort?: number): RelayMap {
  return new Map(
    Object.entries(urls).map(([text, url]) => {
      const id = Number(text);
      const servers = [{ name: `${id}a`, hostName: '127.0.0.1', url, ...(stunPort && { stunPort }) }];
      return [id, { id, code: `r${id}`, name: `Region ${id}`, isEmbedded: false, isAvoided: false, servers }];
    }),
  );
}
