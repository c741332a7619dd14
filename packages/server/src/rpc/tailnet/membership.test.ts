import assert from 'node:assert/strict';
import { after, before, type TestContext, test } from 'node:test';
import { eventually, startTestServer, type TestServer } from '@ropewalk/testkit';
import { createResumeTokens } from '../../app/tailnet/resume-tokens.ts';
import { randomText } from '../../app/values/token.ts';
import { TailnetHub } from './hub.ts';
import { ServerMembership } from './membership.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer({ env: { CODER_DERP_SERVER_STUN_ADDRESSES: 'disable' } });
});
after(() => server.stop());

/** This server's node, and a coordinator that no agent is connected to. */
function start(t: TestContext, options: { idleMs?: number; joinMs?: number }) {
  const { services } = server;
  const hub = new TailnetHub(services, createResumeTokens(randomText(43), services.clock));
  const membership = new ServerMembership(hub, options);
  t.after(async () => {
    await membership.close();
    hub.endCoordination();
    hub.endRelay();
  });
  return { hub, membership };
}

test('an agent that does not join is unavailable, and forgotten after a while', async (t) => {
  const { hub, membership } = start(t, { joinMs: 200, idleMs: 200 });
  const agents = [crypto.randomUUID(), crypto.randomUUID()];
  const opened = agents.map((agent) => membership.connect(agent, 80));
  for (const each of opened) await assert.rejects(each, { code: 'unavailable', message: /has not joined the tailnet/ });
  assert.equal(membership.size, 2);
  await eventually('nobody is known', async () => membership.size === 0);
  await eventually('the node has left', async () => hub.figures()!.coordinator.peers === 0);
});

test('a caller that leaves, or the end of the server, ends the wait', async (t) => {
  const { membership } = start(t, { joinMs: 60_000 });
  const left = new AbortController();
  const reason = new Error('the page was closed');
  const first = membership.connect(crypto.randomUUID(), 80, left.signal);
  const second = membership.connect(crypto.randomUUID(), 80, new AbortController().signal);
  left.abort(reason);
  await assert.rejects(first, reason);
  await Promise.all([assert.rejects(second, { code: 'unavailable' }), membership.close()]);
  await assert.rejects(membership.connect(crypto.randomUUID(), 80), { code: 'unavailable' });
});
