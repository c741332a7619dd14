import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import {
  buildEnds,
  commandTemplate,
  createWorkspace,
  eventually,
  firstUser,
  makeTemplate,
  type ServerProcess,
  startCoderServer,
} from './harness.ts';
import { type PostgresPair, startPostgresPair } from './postgres-pair.ts';

// A server whose URL names a primary and its standby.

let pair: PostgresPair;
let server: ServerProcess;
let scratch: string;
before(async () => {
  scratch = mkdtempSync(join(tmpdir(), 'platform-hosts-'));
  chmodSync(scratch, 0o1777); // builds of a root server have their own uid
  pair = await startPostgresPair();
  // the bundled database does not start, because the URL names another one
  server = await startCoderServer({ bundled: true, env: { CODER_PG_CONNECTION_URL: pair.url } });
  await firstUser(server);
});
after(async () => {
  await server?.stop();
  pair?.close();
  rmSync(scratch, { recursive: true, force: true });
});

test('a server goes on with the standby that becomes the primary, and a build that ends meanwhile succeeds', async () => {
  const [begun, gate] = [join(scratch, 'begun'), join(scratch, 'gate')];
  const slow = commandTemplate(`touch ${begun}; while [ ! -e ${gate} ]; do sleep 0.05; done`);
  const workspace = await createWorkspace(server, await makeTemplate(server, 'failover', slow), 'failover');
  await eventually('the apply has begun', () => existsSync(begun));
  writeFileSync(gate, '');
  pair.failOver();
  const build = await buildEnds(server, workspace.latest_build.id, 60_000);
  assert.equal(build.status, 'running', build.job.error ?? '');
  const stop = await server.api<{ id: string }>('POST', `/workspaces/${workspace.id}/builds`, { transition: 'stop' });
  assert.equal(stop.status, 201, JSON.stringify(stop.body));
  assert.equal((await buildEnds(server, stop.body.id)).status, 'stopped');
});
