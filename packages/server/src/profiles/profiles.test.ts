import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { createPerson, startTestServer, type TestServer } from '@ropewalk/testkit';

let server: TestServer;
let dir: string;
before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'profiles-'));
  server = await startTestServer({
    bare: true,
    env: { CODER_PPROF_ENABLE: 'true', CODER_PPROF_ADDRESS: '127.0.0.1:0' },
  });
});
after(async () => {
  rmSync(dir, { recursive: true, force: true });
  await server.stop();
});

const noGo = spawnSync('go', ['version']).status === 0 ? false : 'needs Go';

const kept: string[][] = [];
function allocateMuch(): void {
  for (let i = 0; i < 200; i++) kept.push(Array.from({ length: 10_000 }, (_, j) => `text ${i} ${j}`));
}

let isBusy = false;
async function spendTime(): Promise<void> {
  while (isBusy) {
    const end = performance.now() + 20;
    while (performance.now() < end);
    await new Promise(setImmediate);
  }
}

/** Go's own tool reads the profile. */
async function top(path: string, index: string): Promise<string> {
  const response = await fetch(`${server.profilesUrl}/debug/pprof/${path}`);
  assert.equal(response.status, 200);
  return read(Buffer.from(await response.arrayBuffer()), index);
}

function read(profile: Buffer, index: string): string {
  const file = join(dir, `${index}.pb.gz`);
  writeFileSync(file, profile);
  return execFileSync('go', ['tool', 'pprof', '-top', `-sample_index=${index}`, file], { encoding: 'utf8' });
}

test('go tool pprof reads where memory in use was allocated', { skip: noGo }, async () => {
  allocateMuch();
  const table = await top('heap', 'inuse_space');
  assert.match(table, /^Type: inuse_space$/m);
  assert.match(table, / allocateMuch\b/);
  assert.equal(kept.length, 200);
});

test('go tool pprof reads where CPU time was spent', { skip: noGo }, async () => {
  isBusy = true;
  const busy = spendTime();
  const table = await top('profile?seconds=1', 'cpu').finally(() => {
    isBusy = false;
  });
  await busy;
  assert.match(table, /^Type: cpu$/m);
  const [, share] = /([\d.]+)% {2}spendTime\b/.exec(table) ?? [];
  assert.ok(Number(share) > 30, table);
  assert.doesNotMatch(table, /\(idle\)/);
});

test('people who may read the health record profiles over the API', { skip: noGo }, async () => {
  const plain = await startTestServer();
  try {
    for (const [kind, type] of [
      ['profile', 'cpu'],
      ['heap', 'inuse_space'],
    ] as const) {
      const url = `${plain.url}/api/v2/debug/pprof/${kind}?seconds=0.2`;
      const response = await fetch(url, { headers: { 'Coder-Session-Token': plain.adminToken } });
      assert.equal(response.status, 200, kind);
      assert.match(read(Buffer.from(await response.arrayBuffer()), type), new RegExp(`^Type: ${type}$`, 'm'));
    }
    for (const seconds of ['-1', '301', 'NaN', 'a'])
      assert.equal((await plain.api('GET', `/debug/pprof/heap?seconds=${seconds}`)).status, 400, seconds);
    const member = await createPerson(plain, 'member');
    assert.equal((await plain.api('GET', '/debug/pprof/heap?seconds=0.1', { token: member.token })).status, 404);
  } finally {
    await plain.stop();
  }
});

test('records one CPU profile at a time, and stops when nobody waits for it', async () => {
  const url = `${server.profilesUrl}/debug/pprof/profile`;
  const left = new AbortController();
  const statusOf = async (seconds: string) => (await fetch(`${url}?seconds=${seconds}`)).status;
  let first: Promise<Response>;
  let refused = true;
  let status = 200;
  while (status === 200) {
    if (refused) {
      refused = false;
      first = fetch(`${url}?seconds=300`, { signal: left.signal });
      // a short one was recorded just then
      first.then(
        () => {
          refused = true;
        },
        () => {},
      );
    }
    status = await statusOf('0.01');
  }
  assert.equal(status, 409);
  left.abort();
  await assert.rejects(first!);
  while (status === 409) status = await statusOf('0.01');
  assert.equal(status, 200);
  assert.equal(await statusOf('301'), 400);
  assert.equal((await fetch(`${server.profilesUrl}/debug/pprof/goroutine`)).status, 404);
  assert.match(await (await fetch(`${server.profilesUrl}/debug/pprof/`)).text(), /pprof\/heap/);
});
