import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Change, ProvisionerDaemon } from '@ropewalk/contract';
import { eventually, insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { dialWebSocket } from '@ropewalk/wire/websocket';
import type { NamedEvent } from '../app/follow/follow.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

interface Listening {
  received: NamedEvent[];
  close(): void;
}

/** Opens the stream as a browser does. */
async function listen(headers: Record<string, string>, query = ''): Promise<Listening> {
  const gone = new AbortController();
  const answer = await fetch(`${server.url}/api/v2/events${query}`, { headers, signal: gone.signal });
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get('content-type'), 'text/event-stream');
  const received: NamedEvent[] = [];
  void (async () => {
    let text = '';
    for await (const chunk of answer.body!.pipeThrough(new TextDecoderStream())) {
      const parts = (text + chunk).split('\n\n');
      text = parts.pop()!;
      for (const part of parts) {
        const lines = part.split('\n').map((line) => [line.split(': ', 1)[0]!, line.slice(line.indexOf(': ') + 2)]);
        received.push(Object.fromEntries(lines) as unknown as NamedEvent);
      }
    }
  })().catch(() => {});
  await eventually('hello', () => received[0]);
  return { received, close: () => gone.abort() };
}

const changesOf = ({ received }: Listening) =>
  received.filter(({ event }) => event === 'change').map(({ data }) => JSON.parse(data) as Change);

test('a browser resumes with the header, other clients with the query', async () => {
  const cookie = { cookie: `coder_session_token=${server.adminToken}` };
  const first = await listen(cookie);
  assert.deepEqual(first.received, [
    {
      id: first.received[0]!.id,
      event: 'hello',
      data: JSON.stringify({ version: server.services.version, resumed: false }),
    },
  ]);
  first.close();
  const { id } = first.received[0]!;
  const made = await server.api<{ id: string }>('POST', '/users', {
    body: { username: 'nina', email: 'nina@example.com', login_type: 'none', organization_ids: [await organization()] },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  for (const again of [
    await listen({ ...cookie, 'last-event-id': id }),
    await listen(cookie, `?last_event_id=${encodeURIComponent(id)}`),
  ]) {
    assert.match(again.received[0]!.data, /"resumed":true/);
    await eventually('the user', () =>
      changesOf(again).some((each) => each.kind === 'user' && each.id === made.body.id),
    );
    again.close();
  }
});

const organization = async () => (await server.api<{ id: string }[]>('GET', '/organizations')).body[0]!.id;

test('rejects a reader without a session, and the tab too many', async () => {
  assert.equal((await fetch(`${server.url}/api/v2/events`)).status, 401);
  const person = await insertPerson(server, 'tabs');
  const headers = { 'coder-session-token': person.token };
  const open = await Promise.all(Array.from({ length: 10 }, () => listen(headers)));
  const refused = await fetch(`${server.url}/api/v2/events`, { headers });
  assert.equal(refused.status, 429);
  await refused.body?.cancel();
  for (const each of open) each.close();
  await eventually('a place', async () => {
    const gone = new AbortController();
    const { status } = await fetch(`${server.url}/api/v2/events`, { headers, signal: gone.signal });
    gone.abort();
    return status === 200;
  });
});

test('shows that a daemon connects and leaves', async () => {
  const reader = await listen({ 'coder-session-token': server.adminToken });
  const path = '/api/v2/organizations/default/provisionerdaemons/serve?provisioner=terraform&name=seen&version=1.8';
  const { connection } = await dialWebSocket(`${server.url}${path}`, {
    headers: { 'Coder-Session-Token': server.adminToken },
  });
  connection.on('binary', () => {});
  const found = () => changesOf(reader).filter(({ kind }) => kind === 'provisioner');
  const changed = (count: number) =>
    eventually('the daemon', () => (found().length >= count ? found().at(-1) : undefined), 1_000);
  const { id } = await changed(1);
  const status = async () =>
    (await server.api<ProvisionerDaemon[]>('GET', '/organizations/default/provisionerdaemons')).body.find(
      (daemon) => daemon.id === id,
    )?.status;
  assert.equal(await status(), 'idle');
  const before = found().length;
  connection.close();
  await eventually('it is offline', async () => (await status()) === 'offline');
  await changed(before + 1);
  reader.close();
});
