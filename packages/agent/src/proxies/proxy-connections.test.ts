import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Duplex, duplexPair } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { silentLogger } from '@ropewalk/kit';
import { signToken } from '@ropewalk/kit/signed-token';
import { linkSession } from '@ropewalk/wire/link-session';
import type { PermittedRequest } from '@ropewalk/wire/proxy-link';
import { connectSession } from '@ropewalk/wire/resume/client';
import { ResumeError } from '@ropewalk/wire/resume/error';
import { ResumableSessions } from '@ropewalk/wire/resume/sessions';
import { eventually } from '@ropewalk/wire/testing/sockets';
import { requestTunnel } from '@ropewalk/wire/tunnel';
import { acceptWebSocket } from '@ropewalk/wire/websocket';
import type { YamuxSession } from '@ropewalk/wire/yamux';
import type { Service } from '../services/service.ts';
import { ProxyConnections } from './proxy-connections.ts';

const newKey = () => generateKeyPairSync('ed25519');
const hexOf = (key: KeyObject) =>
  Buffer.from((key.export({ format: 'jwk' }) as { x: string }).x, 'base64url').toString('hex');
const AGENT = 'the agent';
const PROXY = 'the proxy';
const inSeconds = (seconds: number) => Date.now() / 1_000 + seconds;

/** A workspace proxy, an agent whose services echo, and the key of their server. */
async function setUp(t: TestContext, { idleMs = 60_000 } = {}) {
  const { privateKey, publicKey } = newKey();
  const links: YamuxSession[] = [];
  const dials: IncomingMessage[] = [];
  const http = createServer().on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    dials.push(request);
    links.push(linkSession(acceptWebSocket(request, socket, head), { role: 'server' }));
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  const served: string[] = [];
  const echo: Service = ({ request, accept }) => {
    served.push(request.service);
    const stream = accept();
    stream.pipe(stream);
  };
  const sessions = new ResumableSessions();
  const services = new Map(['tcp', 'pty', 'ssh'].map((name): [string, Service] => [name, echo]));
  const agent = new ProxyConnections({ services: () => services, sessions, log: silentLogger, idleMs });
  t.after(async () => {
    agent.close();
    sessions.close();
    http.closeAllConnections();
    http.close();
  });
  const asked = async (request: object): Promise<string> => {
    let answer = 'none';
    const accept = () => {
      answer = 'accepted';
      return { end() {} } as Duplex;
    };
    await agent.serve({ request: { service: 'proxy', ...request }, accept, refuse: () => {} });
    return answer;
  };
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  const keys = [{ sequence: 7, secret: hexOf(publicKey) }];
  const invitation = { does: 'connect', proxy: PROXY, url, agent: AGENT, ticket: 'a ticket', keys };
  const permit = (more: object = {}, of: object = {}, key = privateKey, sequence = 7) =>
    signToken(
      {
        aud: PROXY,
        exp: inSeconds(60),
        permit: { id: 'p1', agent: AGENT, request: { service: 'tcp' }, ...of },
        ...more,
      },
      { sequence, key },
    );
  const open = (text: string, service: PermittedRequest['service'] = 'permitted') =>
    requestTunnel(links.at(-1)!, { service, permit: text });
  return { asked, invitation, permit, open, sessions: links, held: sessions, dials, served };
}

const closed = (stream: Duplex) =>
  new Promise((resolve) =>
    stream
      .resume()
      .once('close', resolve)
      .on('error', () => {}),
  );

test('serves what its server permitted for this agent, this proxy and now, and nothing else', async (t) => {
  const { asked, invitation, permit, open, dials, served } = await setUp(t);
  assert.equal(await asked(invitation), 'accepted');
  assert.equal(dials[0]!.headers['coder-agent-proxy-ticket'], 'a ticket');
  const stream = await open(permit());
  stream.write('hello');
  assert.equal(String((await once(stream, 'data'))[0]), 'hello');
  stream.destroy();
  for (const [why, text] of [
    ['no token', ''],
    ['no signature', permit().replace(/[^.]+$/, '')],
    ['another key', permit({}, {}, newKey().privateKey)],
    ['a key without a number', permit({}, {}, newKey().privateKey, 8)],
    ['another proxy', permit({ aud: 'another' })],
    ['another agent', permit({}, { agent: 'another' })],
    ['expired', permit({ exp: inSeconds(-1) })],
    ['no expiry', permit({ exp: undefined })],
    ['another service', permit({}, { request: { service: 'ssh' } })],
    ['no permit', permit({ permit: undefined, grant: { agent: AGENT, port: 80, kind: 'path' } })],
  ] as const)
    await assert.rejects(open(text), /permit is not valid/, why);
  await assert.rejects(open(permit(), 'tcp' as never), /permit is not valid/);
  assert.deepEqual(served, ['tcp']);
});

test('ends the streams of a permit when the server says it, for good, and no others', async (t) => {
  const { asked, invitation, permit, open } = await setUp(t);
  await asked(invitation);
  const [one, two] = [await open(permit()), await open(permit({}, { id: 'p2' }))];
  const ended = closed(one);
  await asked({ does: 'end', proxy: PROXY, permit: 'p1' });
  await ended;
  assert.equal(two.destroyed, false);
  await assert.rejects(open(permit()), /permit is not valid/);
  await assert.rejects(open(permit(), 'renewed'), /permit is not valid/);
  // it never had this one
  await asked({ does: 'end', proxy: PROXY, permit: 'p3' });
  await assert.rejects(open(permit({}, { id: 'p3' })), /permit is not valid/);
  const gone = closed(two);
  await asked({ does: 'leave', proxy: PROXY });
  await gone;
});

test('streams end with their permit, unless a newer one arrives', async (t) => {
  const { asked, invitation, permit, open } = await setUp(t);
  await asked(invitation);
  const short = (id: string) => open(permit({ exp: inSeconds(1.5) }, { id }));
  const [kept, lost] = [await short('p1'), await short('p2')];
  (await open(permit(), 'renewed')).destroy();
  await closed(lost);
  assert.equal(kept.destroyed, false);
});

test('keeps one connection to a proxy, and none without streams', async (t) => {
  // long enough for the first stream on a busy machine
  const idleMs = 500;
  const { asked, invitation, permit, open, sessions } = await setUp(t, { idleMs });
  await asked(invitation);
  const stream = await open(permit());
  await asked(invitation);
  assert.equal(sessions.length, 1);
  const ended = sessions[0]!.closed;
  const other = await open(permit({}, { id: 'p2' }));
  other.destroy();
  await eventually(() => sessions[0]!.streamCount === 1, 'one stream is open');
  await new Promise((resolve) => setTimeout(resolve, 2 * idleMs));
  assert.equal(sessions[0]!.isClosed, false);
  stream.destroy();
  await ended;
});

test('connects to a few proxies at most', async (t) => {
  const { asked, invitation } = await setUp(t);
  for (let n = 0; n < 8; n++) assert.equal(await asked({ ...invitation, proxy: `p${n}` }), 'accepted');
  await assert.rejects(asked({ ...invitation, proxy: 'p9' }), /8 workspace proxies/);
});

test('explains a proxy that it does not reach, and rejects other requests', async (t) => {
  const { asked, invitation } = await setUp(t);
  const closedPort = createServer().listen(0, '127.0.0.1');
  await once(closedPort, 'listening');
  const url = `http://127.0.0.1:${(closedPort.address() as AddressInfo).port}`;
  closedPort.close();
  await once(closedPort, 'close');
  await assert.rejects(asked({ ...invitation, url }), /does not reach http/);
  for (const wrong of [{ url: 'file:///etc' }, { keys: 'none' }, { proxy: 1 }, { does: 'else' }])
    await assert.rejects(asked({ ...invitation, ...wrong }), { name: 'AppError' });
});

const ADA = { user: 'ada', key: 'key of ada' };

test('a tunnel continues a session of the permitted person, and begins none', async (t) => {
  const { asked, invitation, permit, open, held } = await setUp(t);
  await asked(invitation);
  const tunnel = async (service: string, holder: object = ADA, id = 'p1') => {
    const bytes = await open(permit({}, { id, request: { service: 'tunnel', holder } }));
    return requestTunnel({ openStream: () => bytes }, { service });
  };
  const ping = await tunnel('ping');
  ping.write('probe');
  assert.equal(String((await once(ping, 'data'))[0]), 'probe');
  await assert.rejects(tunnel('ssh'), /can continue a session/);
  await assert.rejects(tunnel('tcp'), /can continue a session/);
  await assert.rejects(tunnel('ping', { user: 'ada' }), /holder/);

  // a session over another connection, as through the server
  const [near, far] = duplexPair();
  const inside = held.serve(far, ADA);
  inside.pipe(inside);
  const session = await connectSession({ dial: async () => near, mayRetry: () => false });
  t.after(() => session.stream.destroy());
  session.stream.write('one ');
  assert.equal(String((await once(session.stream, 'data'))[0]), 'one ');
  // with the secret, another person does not get it
  await assert.rejects(session.move(await tunnel('session', { user: 'bob', key: 'key of bob' }, 'p2')), ResumeError);
  assert.equal(session.stream.attached, true);
  await session.move(await tunnel('session'));
  session.stream.write('two ');
  assert.equal(String((await once(session.stream, 'data'))[0]), 'two ');
  assert.equal(near.destroyed, true);
  const [lost, gone] = [new Promise((resolve) => session.stream.once('detached', resolve)), closed(ping)];
  await asked({ does: 'end', proxy: PROXY, permit: 'p1' });
  await lost;
  await gone;
  await assert.rejects(tunnel('session'), /permit is not valid/);
});
