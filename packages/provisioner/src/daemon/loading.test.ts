// A daemon loads parts of its code after it has connected. A process loads each file once, so each test here uses a file
// that nothing has imported before.
//
// own process: needs files that nothing has loaded

import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { registerHooks } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, type TestContext, test } from 'node:test';
import { silentLogger, systemClock } from '@ropewalk/kit';
import { abortable } from '@ropewalk/kit/abortable';
import { eventually } from '@ropewalk/testkit/wait';
import { ScriptedServer } from '../testing/server.ts';
import { runDaemonGroup } from './group.ts';
import { ServerLink } from './link.ts';

let server: ScriptedServer;
let dir: string;
beforeEach(async () => {
  server = await ScriptedServer.start();
  dir = await mkdtemp(join(tmpdir(), 'pv-'));
  await writeFile(join(dir, 'terraformrc'), '');
});
afterEach(async () => {
  await server.close();
  await rm(dir, { recursive: true, force: true });
});

/** Calls `onLoad` when this process loads a file of this folder. */
function whenLoading(t: TestContext, file: string, onLoad: () => void): void {
  const hooks = registerHooks({
    load(url, context, next) {
      if (url === new URL(file, import.meta.url).href) onLoad();
      return next(url, context);
    },
  });
  t.after(() => hooks.deregister());
}

/** Rejects if the promise takes longer than a minute. */
const within = (promise: Promise<unknown>) => abortable(promise, AbortSignal.timeout(60_000));

const daemon = () => ({
  serverUrl: server.url,
  organization: 'default',
  name: 'loading',
  tags: {},
  auth: { key: 'k'.repeat(43) },
  provisionerVersion: 'v0.0.0-test',
  log: silentLogger,
  clock: systemClock,
});

test('a link that is closed while it loads its clients closes its connection', async (t) => {
  const link = new ServerLink(daemon());
  const closed = Promise.withResolvers<void>();
  let connections = 0;
  whenLoading(t, './clients.ts', () => {
    connections = server.sessions.size;
    link.close().then(closed.resolve, closed.reject);
  });
  link.start([]);
  await within(closed.promise);
  assert.equal(connections, 1, 'it was connected');
  await eventually('the server has no connection', () => server.sessions.size === 0);
});

test('a group that cannot load the code that runs jobs closes its connections', async (t) => {
  whenLoading(t, './daemon.ts', () => {
    assert.equal(server.sessions.size, 2, 'both are connected');
    throw new Error('the disk is broken');
  });
  const members = ['one', 'two'].map((name) => ({ name, workDir: join(dir, name) }));
  const group = runDaemonGroup({
    ...daemon(),
    members,
    cacheDir: join(dir, 'cache'),
    secretValues: [],
    env: { ...process.env, TF_CLI_CONFIG_FILE: join(dir, 'terraformrc') },
  });
  await assert.rejects(group, /the disk is broken/);
  await eventually('the server has no connection', () => server.sessions.size === 0);
});
