import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, get, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { eventually, startTestServer, type TestServer } from '@ropewalk/testkit';
import type { FastifyReply } from 'fastify';
import { systemContext } from '../app/context/context.ts';
import type { Source } from '../app/follow/follow.ts';
import { followAsEvents } from './follow.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

function replyOf(raw: ServerResponse): FastifyReply {
  const reply = { hijack: () => reply, getHeaders: () => ({}), raw };
  return reply as unknown as FastifyReply;
}

/** Follows a source towards a reader that is a real HTTP client. */
async function withReader(
  handle: (raw: ServerResponse) => Promise<void>,
  read: (port: number) => Promise<void>,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const front = createServer((_request, raw) => void handle(raw).then(resolve, reject));
  await once(front.listen(0, '127.0.0.1'), 'listening');
  try {
    await read((front.address() as AddressInfo).port);
    await promise;
  } finally {
    front.closeAllConnections();
    front.close();
  }
}

const ctx = () => systemContext(server.services, 'test');

test('a stream whose reader left before it began ends immediately', { timeout: 20_000 }, async () => {
  const endless: Source = {
    permission: () => {},
    subscribe: () => () => {},
    next: async () => ({ messages: [], more: false, end: false }),
  };
  await withReader(
    async (raw) => {
      await once(raw, 'close');
      await followAsEvents(ctx(), replyOf(raw), endless);
    },
    async (port) => {
      const request = get({ port, host: '127.0.0.1' }).on('error', () => {});
      await eventually('the request was sent', async () => request.socket?.readyState === 'open');
      request.destroy();
    },
  );
});

test('a slow reader of events receives every message and leaves no listeners behind', async () => {
  const COUNT = 40;
  let sent = 0;
  let listeners = 0;
  const received: string[] = [];
  await withReader(
    (raw) => {
      const before = raw.listenerCount('close');
      return followAsEvents(ctx(), replyOf(raw), {
        permission: () => {},
        subscribe: () => () => {},
        next: async () => {
          sent += 1;
          listeners = Math.max(listeners, raw.listenerCount('close') - before);
          return { messages: [`${sent} ${'x'.repeat(256 * 1024)}`], more: true, end: sent === COUNT };
        },
      });
    },
    async (port) => {
      const [answer] = await once(get({ port, host: '127.0.0.1' }), 'response');
      let text = '';
      for await (const chunk of answer.setEncoding('utf8')) text += chunk;
      received.push(...text.split('\n\n').filter((event) => event.startsWith('event: data')));
    },
  );
  assert.deepEqual(
    received.map((event) => /^event: data\ndata: (\d+) /.exec(event)?.[1]),
    Array.from({ length: COUNT }, (_, i) => String(i + 1)),
  );
  assert.ok(listeners <= 2, `${listeners} listeners for the end of the connection`);
});
