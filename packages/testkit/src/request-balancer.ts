import { once } from 'node:events';
import { type ClientRequest, createServer, type IncomingMessage, request } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import type { Duplex } from 'node:stream';

/** A load balancer that sends each request to the next backend, even if they come on one connection. */
export interface RequestBalancer {
  url: string;
  /** Sends requests to the servers at these addresses in turn. With a function: to those for the request's path. */
  use(urls: readonly string[] | ((path: string) => readonly string[])): void;
  /** Breaks the open WebSockets and other upgraded connections. */
  disconnect(): void;
  close(): Promise<void>;
}

/** Listens on a free port of this machine. Requests and answers pass unchanged, WebSockets too. */
export async function startRequestBalancer(): Promise<RequestBalancer> {
  let backendsOf: (path: string) => readonly string[] = () => [];
  let turn = 0;
  const upgraded = new Set<Duplex>();
  const next = ({ url: path = '/' }: IncomingMessage) => {
    const backends = backendsOf(path);
    const { hostname, port } = new URL(backends[turn++ % backends.length]!);
    return { host: hostname, port: Number(port) };
  };
  const server = createServer({ maxHeaderSize: 128 * 1024, requestTimeout: 0, keepAliveTimeout: 0 }, (from, answer) => {
    const to: ClientRequest = request({
      ...next(from),
      method: from.method,
      path: from.url,
      headers: from.rawHeaders,
      agent: false,
    });
    to.on('response', (given) => {
      answer.writeHead(given.statusCode!, given.statusMessage, given.rawHeaders);
      // a stream may say nothing for long
      answer.flushHeaders();
      given.on('error', () => answer.destroy());
      given.pipe(answer);
    });
    to.on('error', () => answer.destroy());
    answer.on('close', () => to.destroy());
    from.pipe(to);
  });
  server.on('upgrade', (from: IncomingMessage, client: Duplex, head: Buffer) => {
    const backend = connect({ ...next(from), noDelay: true });
    backend.write(headOf(from));
    backend.write(head);
    for (const [one, other] of [
      [client, backend],
      [backend, client],
    ] as const) {
      upgraded.add(one);
      one.on('error', () => {});
      one.on('close', () => {
        upgraded.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    use(urls) {
      backendsOf = typeof urls === 'function' ? urls : () => urls;
    },
    disconnect() {
      for (const socket of upgraded) socket.destroy();
    },
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      for (const socket of upgraded) socket.destroy();
      await closed;
    },
  };
}

function headOf({ method, url, rawHeaders }: IncomingMessage): string {
  let head = `${method} ${url} HTTP/1.1\r\n`;
  for (let at = 0; at < rawHeaders.length; at += 2) head += `${rawHeaders[at]}: ${rawHeaders[at + 1]}\r\n`;
  return `${head}\r\n`;
}
