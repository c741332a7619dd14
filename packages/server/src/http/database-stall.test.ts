import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Workspace } from '@ropewalk/contract';
import { connect } from '@ropewalk/server/db/connect';
import {
  createTestTemplate,
  eventually,
  runningTime,
  startTestPostgres,
  startTestServer,
  type TestPostgres,
  type TestServer,
} from '@ropewalk/testkit';
import { processIds } from '@ropewalk/testkit/processes';
import { dialWebSocket } from '@ropewalk/wire/websocket';

import { watchDatabaseStall } from './database-stall.ts';

/** The promised time, with room for a busy machine. */
const BOUND_MS = 5_000 + 1_500;
let postgres: TestPostgres;
let server: TestServer;
let postmaster: number;
before(async () => {
  postgres = await startTestPostgres();
  server = await startTestServer({ env: { CODER_PG_CONNECTION_URL: postgres.url } });
  const sql = connect(postgres.url, { max: 1 });
  const [row] = await sql<{ dir: string }[]>`SELECT current_setting('data_directory') AS dir`;
  await sql.end();
  postmaster = Number(readFileSync(join(row!.dir, 'postmaster.pid'), 'utf8').split('\n')[0]);
});
after(async () => {
  signal('SIGCONT');
  await server.stop();
  await postgres.stop();
});

function signal(name: 'SIGSTOP' | 'SIGCONT'): void {
  const below = processIds().filter((pid) => {
    try {
      return Number(/\) \S (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1]) === postmaster;
    } catch {
      return false;
    }
  });
  for (const pid of [postmaster, ...below]) process.kill(pid, name);
}

const timed = async (path: string) => {
  const time = runningTime();
  const response = await fetch(`${server.url}${path}`, {
    headers: { 'Coder-Session-Token': server.adminToken },
    signal: AbortSignal.timeout(30_000),
  });
  const text = await response.text();
  time.stop();
  return { status: response.status, text, ms: time.ms() };
};

test('gives up no request whose answer arrived while this process was stopped', async () => {
  const sql = connect(postgres.url, { max: 1 });
  await sql`SELECT`;
  let paused = false;
  const pause = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3_000);
  const pausing = new Proxy(sql, {
    apply(query, self, args) {
      const answer = Reflect.apply(query, self, args);
      // once the driver has sent it
      if (!paused) setImmediate(() => setImmediate(pause));
      paused = true;
      return answer;
    },
  });
  const stall = watchDatabaseStall(pausing);
  const slow = Promise.withResolvers<string>();
  const guarded = stall.guard(slow.promise);
  guarded.catch(() => {});
  await eventually('it was stopped', () => paused);
  // the looks after the pause
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  slow.resolve('answered');
  assert.equal(await guarded, 'answered');
  stall.close();
  await sql.end();
});

test('answers every call with 503 within five seconds while the database is stopped, keeps streams, and recovers', async () => {
  const template = await createTestTemplate(server, 'base');
  const made = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name: 'dev', template_id: template.id },
  });
  const { connection } = await dialWebSocket(`${server.url}/api/v2/workspaces/${made.body.id}/watch-ws`, {
    headers: { 'Coder-Session-Token': server.adminToken },
  });
  let closed = false;
  connection.on('close', () => {
    closed = true;
  });
  const paths = [
    '/api/v2/users/me',
    '/api/v2/workspaces',
    '/api/v2/templates',
    '/api/v2/users?limit=5',
    '/api/v2/organizations/default/provisionerdaemons',
    '/api/v2/buildinfo',
    '/readyz',
    '/healthz',
  ];
  signal('SIGSTOP');
  try {
    // more of them than the pool has connections
    const rounds = await Promise.all([...paths, ...Array(20).fill('/api/v2/workspaces')].map(timed));
    const later = await Promise.all(paths.map(timed));
    for (const [i, { status, text, ms }] of [...rounds, ...later].entries()) {
      const path = [...paths, ...Array(20).fill('/api/v2/workspaces'), ...paths][i];
      assert.ok(ms < BOUND_MS, `${path}: ${Math.round(ms)} ms`);
      const answers = ['/healthz', '/api/v2/buildinfo'].includes(path);
      // a verified token is trusted for a few seconds
      if (path !== '/api/v2/users/me' || status !== 200) assert.equal(status, answers ? 200 : 503, `${path}: ${text}`);
      if (status === 503) assert.match((JSON.parse(text) as { message: string }).message, /database does not answer/);
    }
    assert.equal(closed, false);
  } finally {
    signal('SIGCONT');
  }
  await eventually('it is ready', async () => (await timed('/readyz')).status === 200);
  for (const path of paths) assert.equal((await timed(path)).status, 200, path);
  connection.close(1000, '');
});
