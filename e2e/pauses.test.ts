import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import {
  type Build,
  buildEnds,
  commandTemplate,
  createWorkspace,
  descendants,
  eventually,
  firstUser,
  makeTemplate,
  type ServerProcess,
  startCoderServer,
} from './harness.ts';

// A machine that is suspended, a process without its processor and a disk that hangs stop programs for a while. The leases
// of running jobs stand still meanwhile.

const LEASE_S = 10;

let server: ServerProcess;
let scratch: string;
before(async () => {
  scratch = mkdtempSync(join(tmpdir(), 'platform-pauses-'));
  chmodSync(scratch, 0o1777); // builds of a root server have their own uid
  server = await startCoderServer({
    bundled: true,
    env: { CODER_PROVISIONER_LEASE: `${LEASE_S}s`, CODER_PROVISIONER_DAEMONS: '1' },
  });
  await firstUser(server);
});
after(async () => {
  await server?.stop();
  rmSync(scratch, { recursive: true, force: true });
});

/** The processes of the bundled database. */
function database(): number[] {
  const first = server.postmaster()!;
  return [first, ...descendants(first).map(({ pid }) => pid)];
}

const everything = () => [server.child.pid!, ...descendants(server.child.pid!).map(({ pid }) => pid), ...database()];

/** Stops processes for longer than a lease. */
async function pause(pids: number[]): Promise<void> {
  const stopped = new Set(pids);
  const send = (signal: NodeJS.Signals) => {
    for (const pid of stopped) {
      try {
        process.kill(pid, signal);
      } catch {
        // it has ended
      }
    }
  };
  send('SIGSTOP');
  try {
    await delay((LEASE_S + 5) * 1_000);
  } finally {
    send('SIGCONT');
  }
}

for (const [what, pids] of [
  ['server', () => [server.child.pid!]],
  ['database', database],
  ['machine', everything],
] as const) {
  test(`a build goes on after its ${what} stood still for longer than its lease`, async () => {
    const [begun, gate] = [join(scratch, `${what}-begun`), join(scratch, `${what}-gate`)];
    const slow = commandTemplate(`touch ${begun}; while [ ! -e ${gate} ]; do sleep 0.05; done`);
    const workspace = await createWorkspace(server, await makeTemplate(server, what, slow), what);
    const { id } = workspace.latest_build;
    await eventually('the apply has begun', () => existsSync(begun));
    await pause(pids());
    // longer than the time from one sweep of lost jobs to the next
    const until = performance.now() + 8_000;
    while (performance.now() < until) {
      const { body } = await server.api<Build>('GET', `/workspacebuilds/${id}`);
      assert.equal(body.job?.status ?? 'running', 'running', body.job?.error ?? '');
      await delay(250);
    }
    writeFileSync(gate, '');
    const build = await buildEnds(server, id);
    assert.equal(build.status, 'running', build.job.error ?? '');
  });
}
