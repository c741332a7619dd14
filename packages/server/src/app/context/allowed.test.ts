import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { after, before, test } from 'node:test';
import { ADMIN, eventually, logIn, startTestServer, type TestServer } from '@ropewalk/testkit';
import { startTestWorkspace, type TestWorkspace } from '@ropewalk/testkit/workspace';
import type { FastifyReply } from 'fastify';
import { apiKeyById } from '../../db/queries/apikeys.ts';
import { userById } from '../../db/queries/users.ts';
import { followAsEvents } from '../../http/follow.ts';
import { parseAppHost, parseWildcard } from '../values/app-address.ts';
import { createAppGrants } from '../workspace-app/grants.ts';
import { whileAllowed } from './allowed.ts';
import { type Ctx, systemContext } from './context.ts';
import { createAppTokens } from './sealed-tokens.ts';
import { actorOf } from './session.ts';

/** Permissions that end between the check and the start of the stream. */
let server: TestServer;
let workspace: TestWorkspace;
before(async () => {
  server = await startTestServer({ env: { CODER_WILDCARD_ACCESS_URL: '*.apps.test' } });
  workspace = await startTestWorkspace(server, 'dev', {
    agent: { apps: [{ slug: 'web', url: 'http://x:1' }] as never },
  });
});
after(async () => {
  await workspace.stop();
  await server.stop();
});

/** The context of a session that can be revoked, as a handler gets it. */
async function session(): Promise<{ ctx: Ctx; end(): Promise<void> }> {
  const token = await logIn(server, ADMIN.email, ADMIN.password);
  const { sql } = server.services;
  const key = (await apiKeyById(sql, token.split('-')[0]!))!;
  const actor = actorOf((await userById(sql, key.user_id))!, key, server.services.config);
  return {
    ctx: { ...systemContext(server.services, 'test'), actor },
    async end() {
      let notified = false;
      const off = server.services.events.on('revoked', ({ api_key_ids = [] }) => {
        notified ||= api_key_ids.includes(key.id);
      });
      await server.api('POST', '/users/logout', { token });
      await eventually('every listener was notified', async () => notified);
      off();
    },
  };
}

test('ends a stream whose session was revoked before the watch began', async () => {
  const { ctx, end } = await session();
  await end();
  await new Promise<void>((resolve) => whileAllowed(ctx, () => {}, resolve));
});

test('ends an app connection whose session was revoked between the grant and the opening', async () => {
  const { ctx, end } = await session();
  const grants = createAppGrants(server.services, createAppTokens('secret'));
  const address = parseAppHost(parseWildcard('*.apps.test')!, 'web--main--dev--admin.apps.test')!;
  const { grant } = await grants.ask(ctx.actor, address);
  await end();
  await new Promise<void>((resolve) => grants.watch(grant, address, resolve));
  grants.close();
});

test('ends an event stream with its session even if the reader takes nothing', async () => {
  const { ctx, end } = await session();
  let stuck = false;
  const source = {
    permission: () => {},
    subscribe: () => () => {},
    next: async () => ({ messages: [big], more: true, end: false }),
  };
  const big = JSON.stringify('x'.repeat(1024 * 1024));
  const front = createServer((_request, raw) => {
    const reply = { hijack: () => reply, getHeaders: () => ({}), raw } as unknown as FastifyReply;
    void followAsEvents(ctx, reply, source as never);
    const timer = setInterval(() => {
      stuck = raw.writableNeedDrain;
    }, 5);
    raw.once('close', () => clearInterval(timer));
    raw.once('close', () => front.emit('over'));
  });
  front.listen(0, '127.0.0.1');
  await once(front, 'listening');
  const reader = connect((front.address() as AddressInfo).port, '127.0.0.1');
  reader.pause().write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  await eventually('the reader is behind', async () => stuck);
  const over = once(front, 'over');
  await end();
  await over;
  reader.destroy();
  front.close();
  assert.ok(stuck);
});
