import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, mock, type TestContext, test } from 'node:test';
import { type Client, createClient } from '@ropewalk/client';
import { nodeFetch } from '@ropewalk/client/node-fetch';
import { acceptWebSocket } from '@ropewalk/wire/websocket';
import { followLog } from './follow-log.ts';

/** A stream of the log: the ids of its lines, and how it ends. */
interface Stream {
  lines: number[];
  /** `status`: the request is rejected with it, in HTML as by a proxy if it is 502 or more. */
  ends: 'closed' | 'broken' | { status: number };
  /** How long the broken stream was open. */
  openMs?: number;
}

/** What the command takes for the time, in ms. */
let now = 0;
before(() => void mock.method(performance, 'now', () => now));
after(() => mock.restoreAll());

/** A server that answers the first requests for the log with these streams, and all others with the last one. */
async function serve(t: TestContext, ...streams: Stream[]) {
  const asked: number[] = [];
  const server = createServer((_req, res) => res.writeHead(502, { 'content-type': 'text/html' }).end('<html>'));
  server.on('upgrade', (req, socket, head) => {
    const { lines, ends, openMs = 0 } = streams[Math.min(asked.length, streams.length - 1)]!;
    asked.push(Number(/after=(\d+)/.exec(req.url!)?.[1]));
    if (typeof ends === 'object') {
      const isProxy = ends.status >= 502;
      const [type, body] = isProxy ? ['text/html', '<html>'] : ['application/json', '{"message":"no"}'];
      socket.end(
        `HTTP/1.1 ${ends.status} \r\nContent-Type: ${type}\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
      );
      return;
    }
    const connection = acceptWebSocket(req, socket, head);
    connection.on('text', () => {});
    for (const id of lines) connection.sendText(JSON.stringify({ id }));
    if (ends === 'closed') connection.close(1000);
    else
      setTimeout(() => {
        now += openMs;
        socket.destroy();
      }, 20);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { client: createClient({ url, token: 'tok', fetch: nodeFetch }), asked };
}

/** Follows the log with these answers to whether it has ended. The last one repeats. */
async function linesOf(client: Client, ...overs: (boolean | (() => Promise<boolean>))[]): Promise<number[]> {
  const lines: number[] = [];
  await followLog<{ id: number }>(client, {
    path: '/log',
    after: 0,
    onLine: ({ id }) => lines.push(id),
    isOver: async () => {
      const over = overs.length > 1 ? overs.shift()! : overs[0]!;
      return typeof over === 'boolean' ? over : over();
    },
  });
  return lines;
}

test('reads the rest of a log that has ended while its stream was broken', { timeout: 20_000 }, async (t) => {
  const { client, asked } = await serve(
    t,
    { lines: [1, 2], ends: 'broken' },
    { lines: [], ends: { status: 503 } },
    { lines: [2, 3, 4], ends: 'closed' },
  );
  assert.deepEqual(await linesOf(client, true), [1, 2, 3, 4]);
  assert.deepEqual(asked, [0, 2, 2]);
});

test('continues after a proxy has answered in place of the server', { timeout: 20_000 }, async (t) => {
  const { client } = await serve(
    t,
    { lines: [1], ends: 'closed' },
    { lines: [], ends: { status: 504 } },
    { lines: [2], ends: 'closed' },
  );
  const byProxy = async () => {
    await client.call('GET /buildinfo');
    return true;
  };
  assert.deepEqual(await linesOf(client, byProxy, byProxy, true), [1, 2]);
});

test('reports a rejected request without another attempt, unless the log has ended', { timeout: 20_000 }, async (t) => {
  const { client, asked } = await serve(t, { lines: [], ends: { status: 404 } });
  await assert.rejects(linesOf(client, false), { name: 'ApiError', status: 404 });
  assert.deepEqual(await linesOf(client, true), []);
  assert.equal(asked.length, 2);
});

test('a quiet log is lost after 100 s without a stream that lasts', { timeout: 20_000 }, async (t) => {
  const lasting: Stream = { lines: [], ends: 'broken', openMs: 60_000 };
  const quiet = await serve(t, lasting, lasting, lasting, { lines: [], ends: 'closed' });
  assert.deepEqual(await linesOf(quiet.client, false, false, false, true), []);
  const { client, asked } = await serve(t, { lines: [], ends: 'broken' });
  const slowly = async () => {
    now += 40_000;
    return false;
  };
  await assert.rejects(linesOf(client, slowly), { name: 'UnreachableError' });
  assert.equal(asked.length, 3);
});
