import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { VERSION } from '@ropewalk/kit/version';
import { invoke } from '../testing/invoke.ts';

test('sends its program and version with each request and stream, unless a header says otherwise', async (t) => {
  const seen: (string | undefined)[] = [];
  const id = crypto.randomUUID();
  const agent = { id, name: 'main', status: 'connected', lifecycle_state: 'ready', health: { healthy: true } };
  const workspace = {
    id,
    name: 'dev',
    owner_name: 'ann',
    latest_build: { transition: 'start', status: 'running', job: {}, resources: [{ agents: [agent] }] },
  };
  const server = createServer((request, response) => {
    seen.push(request.headers['user-agent']);
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify(request.url!.includes('/workspace/') ? workspace : []));
  });
  server.on('upgrade', (request, socket) => {
    seen.push(`stream ${request.headers['user-agent']}`);
    socket.end('HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const env = { CODER_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, CODER_SESSION_TOKEN: 'x' };
  const own = `coder/${VERSION} (${process.platform}; ${process.arch})`;
  await invoke(['tokens', 'list', '-o', 'json'], env);
  assert.deepEqual([...new Set(seen.splice(0))], [own]);
  await invoke(['ping', 'dev', '-n', '1'], env);
  assert.ok(seen.splice(0).includes(`stream ${own}`));
  await invoke(['tokens', 'list', '-o', 'json', '--header', 'user-agent=mine'], env);
  assert.deepEqual([...new Set(seen)], ['mine']);
});
