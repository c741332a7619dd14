import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import type { WorkspaceAgentLog } from '@ropewalk/contract';
import { eventually, freshDatabase, startTestServer, startTestWorkspace } from '@ropewalk/testkit';
import { pipeDatabase } from '@ropewalk/testkit/database-pipe';
import { byteStream, dialWebSocket } from '@ropewalk/wire/websocket';

test('keeps the agent connected and loses no output of a script while the database is unreachable', async () => {
  const database = await freshDatabase();
  const pipe = await pipeDatabase(database.url);
  const server = await startTestServer({ env: { CODER_PG_CONNECTION_URL: pipe.url } });
  const echo = createServer((socket) => socket.pipe(socket));
  await new Promise<void>((resolve) => echo.listen(0, '127.0.0.1', resolve));
  const dev = await startTestWorkspace(server, 'outage', {
    ready: false,
    agent: {
      scripts: [
        {
          displayName: 'Count',
          script: 'for i in $(seq 1 20); do echo "line $i"; sleep 0.1; done',
          runOnStart: true,
        },
      ],
    },
  });
  const { port } = echo.address() as AddressInfo;
  const { connection } = await dialWebSocket(
    `${server.url}/api/v2/workspaceagents/${dev.agentId}/tunnel?service=tcp&port=${port}`,
    { headers: { 'Coder-Session-Token': server.adminToken } },
  );
  const tunnel = byteStream(connection);
  tunnel.on('error', () => {});
  const says = async (word: string) => {
    tunnel.write(word);
    return String(((await once(tunnel, 'data')) as [Buffer])[0]);
  };
  assert.equal(await says('before'), 'before');

  pipe.cut();
  // the script goes on printing and ends meanwhile
  const until = performance.now() + 3_000;
  while (performance.now() < until) assert.equal(await says('meanwhile'), 'meanwhile');
  pipe.mend();

  await eventually('it is ready', async () => (await dev.look().catch(() => undefined))?.lifecycle_state === 'ready');
  const lines = await eventually('the last line', async () => {
    const { body } = await server.api<WorkspaceAgentLog[]>('GET', `/workspaceagents/${dev.agentId}/logs`);
    return body.at(-1)?.output === 'line 20' && body;
  });
  assert.deepEqual(
    [...new Set(lines.map(({ output }) => output))],
    Array.from({ length: 20 }, (_, i) => `line ${i + 1}`),
  );
  assert.equal(await says('after'), 'after', 'the tunnel is the same as before');
  tunnel.destroy();
  await dev.stop();
  echo.close();
  await server.stop();
  pipe.close();
  await database.drop();
});
