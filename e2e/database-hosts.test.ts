import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { gates, startGatedBuild } from './daemon-process.ts';
import { buildEnds, firstUser, type ServerProcess, startCoderServer } from './harness.ts';
import { type PostgresPair, startPostgresPair } from './postgres-pair.ts';

// A server whose URL names a primary and its standby.

let pair: PostgresPair;
let server: ServerProcess;
const { gate, remove } = gates();
before(async () => {
  pair = await startPostgresPair();
  // the bundled database does not start, because the URL names another one
  server = await startCoderServer({ bundled: true, env: { CODER_PG_CONNECTION_URL: pair.url } });
  await firstUser(server);
});
after(async () => {
  await server?.stop();
  pair?.close();
  remove();
});

test('a server goes on with the standby that becomes the primary, and a build that ends meanwhile succeeds', async () => {
  const held = gate('failover');
  const workspace = await startGatedBuild(server, held, 'failover');
  held.open();
  pair.failOver();
  const build = await buildEnds(server, workspace.latest_build.id, 60_000);
  assert.equal(build.status, 'running', build.job.error ?? '');
  const stop = await server.api<{ id: string }>('POST', `/workspaces/${workspace.id}/builds`, { transition: 'stop' });
  assert.equal(stop.status, 201, JSON.stringify(stop.body));
  assert.equal((await buildEnds(server, stop.body.id)).status, 'stopped');
});
