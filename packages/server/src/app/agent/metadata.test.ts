import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { WorkspaceAgentMetadata } from '@ropewalk/contract';
import {
  insertPerson,
  startTestServer,
  startTestWorkspace,
  type TestServer,
  type TestWorkspace,
} from '@ropewalk/testkit';
import { dialWebSocket } from '@ropewalk/wire/websocket';

let server: TestServer;
let dev: TestWorkspace;
before(async () => {
  server = await startTestServer();
  dev = await startTestWorkspace(server, 'measured', {
    agent: {
      metadata: [
        { key: 'clock', displayName: 'Clock', script: 'date +%s%N', interval: 1n, timeout: 1n, order: 1n },
        { key: 'broken', displayName: 'Broken', script: 'echo no >&2; exit 3', interval: 1n, timeout: 1n, order: 2n },
        { key: 'long', displayName: 'Long', script: 'head -c 5000 /dev/zero | tr "\\0" x', interval: 1n, order: 3n },
      ],
    },
  });
});
after(async () => {
  await dev.stop();
  await server.stop();
});

const until = async (
  what: string,
  messages: AsyncIterator<WorkspaceAgentMetadata[]>,
  good: (m: WorkspaceAgentMetadata[]) => boolean,
) => {
  const seen: unknown[] = [];
  for (;;) {
    const { value, done } = await messages.next();
    if (done) assert.fail(`${what}: ended after ${JSON.stringify(seen).slice(0, 2_000)}`);
    seen.push(value);
    if (good(value)) return value;
  }
};

/** The data events of a stream of server-sent events. */
async function* events(path: string, signal: AbortSignal): AsyncGenerator<WorkspaceAgentMetadata[]> {
  const answer = await fetch(`${server.url}/api/v2${path}`, {
    headers: { 'Coder-Session-Token': server.adminToken },
    signal,
  });
  assert.equal(answer.headers.get('content-type'), 'text/event-stream');
  let text = '';
  for await (const chunk of answer.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const data = /^event: data\ndata: (.*)$/.exec(text.slice(0, end))?.[1];
      text = text.slice(end + 2);
      if (data) yield JSON.parse(data) as WorkspaceAgentMetadata[];
    }
  }
}

test('sends each new value to watchers immediately, as events and as messages, and cuts long values', async () => {
  const ended = new AbortController();
  const stream = events(`/workspaceagents/${dev.agentId}/watch-metadata`, ended.signal);
  // a busy machine may exceed the timeout of a second, and the next value follows soon
  const first = await until('collected', stream, (values) =>
    values.every(({ result }) => result.collected_at > '2000' && !/timed out/.test(result.error)),
  );
  const [clock, broken, long] = first;
  assert.deepEqual(clock!.description, {
    display_name: 'Clock',
    key: 'clock',
    script: 'date +%s%N',
    interval: 1,
    timeout: 1,
  });
  assert.match(broken!.result.error, /3.*no/s);
  assert.equal(long!.result.value.length, 2_048);
  assert.match(long!.result.error, /exceeded 2048 bytes/);
  // the agent's own pace is a minute, so only a watched agent is this fast
  const started = performance.now();
  let last = clock!.result.value;
  for (let i = 0; i < 3; i++) {
    const next = await until('a newer value', stream, ([value]) => value!.result.value !== last);
    last = next[0]!.result.value;
  }
  assert.ok(performance.now() - started < 25_000);
  ended.abort();

  const { connection } = await dialWebSocket(`${server.url}/api/v2/workspaceagents/${dev.agentId}/watch-metadata-ws`, {
    headers: { 'Coder-Session-Token': server.adminToken },
  });
  const text = await new Promise<string>((resolve) => connection.once('text', resolve));
  const message = JSON.parse(text) as { type: string; data: WorkspaceAgentMetadata[] };
  assert.equal(message.type, 'data');
  assert.equal(message.data.length, 3);
  connection.close();
});

test('shows them to nobody else', async () => {
  const stranger = await insertPerson(server, 'nosy');
  const { status } = await server.api('GET', `/workspaceagents/${dev.agentId}/watch-metadata`, {
    token: stranger.token,
  });
  assert.equal(status, 404);
});
