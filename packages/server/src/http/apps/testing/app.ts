import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { acceptWebSocket } from '@ropewalk/wire/websocket';

export interface TestApp {
  port: number;
  server: Server;
  /** Requests so far, in order. */
  seen: IncomingMessage[];
  /** The number of open event streams. */
  open: Set<ServerResponse>;
  close(): Promise<void>;
}

/** The answer of `/echo`. */
export interface Echo {
  method: string;
  url: string;
  headers: Record<string, string>;
  raw: string[];
  body: string;
}

/** A small app that shows its requests, streams, receives uploads and echoes WebSockets. */
export async function startTestApp(
  more?: (request: IncomingMessage, response: ServerResponse) => boolean,
): Promise<TestApp> {
  const seen: IncomingMessage[] = [];
  const open = new Set<ServerResponse>();
  const server = createServer({ maxHeaderSize: 128 * 1024 }, (request, response) => {
    seen.push(request);
    if (more?.(request, response)) return;
    const path = request.url!.split('?')[0]!;
    if (path.endsWith('/sse')) {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      response.write('data: first\n\n');
      open.add(response);
      response.on('close', () => open.delete(response));
      return;
    }
    if (path.endsWith('/upload')) {
      const hash = createHash('sha256');
      let bytes = 0;
      request.on('data', (part: Buffer) => {
        hash.update(part);
        bytes += part.length;
      });
      request.on('end', () => response.end(JSON.stringify({ bytes, hash: hash.digest('hex') })));
      return;
    }
    if (path.endsWith('/big')) {
      const part = Buffer.alloc(64 * 1024, 'x');
      let left = Number(new URL(request.url!, 'http://x').searchParams.get('bytes'));
      response.writeHead(200, { 'Content-Length': left });
      const send = () => {
        while (left > 0) {
          const next = left >= part.length ? part : part.subarray(0, left);
          left -= next.length;
          if (!response.write(next)) return void response.once('drain', send);
        }
        response.end();
      };
      send();
      return;
    }
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const echo: Echo = {
        method: request.method!,
        url: request.url!,
        headers: request.headers as Record<string, string>,
        raw: request.rawHeaders,
        body: Buffer.concat(parts).toString(),
      };
      response.setHeader('Content-Type', 'application/json');
      response.end(JSON.stringify(echo));
    });
  });
  server.on('upgrade', (request, socket, head) => {
    seen.push(request);
    if (request.url!.includes('refused')) {
      socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno');
      return;
    }
    const connection = acceptWebSocket(request, socket, head, {
      headers: { 'Set-Cookie': 'coder_session_token=evil' },
    });
    connection.on('text', (text) => connection.sendText(text));
    connection.on('binary', (bytes) => connection.sendBinary(bytes));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    server,
    seen,
    open,
    async close() {
      server.closeAllConnections();
      server.close();
      if (server.listening) await once(server, 'close');
    },
  };
}
