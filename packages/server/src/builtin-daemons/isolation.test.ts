import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { HealthcheckReport, ProvisionerDaemon, TemplateVersion } from '@ropewalk/contract';
import { idsOfProcess } from '@ropewalk/kit';
import { pendingVersion, startTestServer, type TestServer } from '@ropewalk/testkit';
import { processIds } from '@ropewalk/testkit/processes';
import { eventually } from '@ropewalk/testkit/wait';

// a server that is not root runs builds under its own uid and says so
const skip = process.getuid?.() !== 0 && 'needs root';
const MAIN = fileURLToPath(import.meta.resolve('../../../cli/src/main.ts'));

/** Starts a server whose daemons' program lies below a folder with this mode. */
async function serverBelow(
  t: TestContext,
  mode: number,
  { knowsPaths = false } = {},
): Promise<{ server: TestServer; folder: string; program: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'platform-below-'));
  mkdirSync(join(folder, 'above/program'), { recursive: true, mode: 0o755 });
  writeFileSync(join(folder, 'above/secret'), 'of root', { mode: 0o644 });
  const program = join(folder, 'above/program/coder.mjs');
  writeFileSync(program, `import ${JSON.stringify(MAIN)};\n`, { mode: 0o644 });
  chmodSync(folder, mode);
  const server = await startTestServer({
    env: { CODER_PROVISIONER_DAEMONS: '1' },
    daemonCommand: [process.execPath, program, 'provisioner', 'builtin'],
    ...(knowsPaths ? { programPaths: [process.execPath, dirname(program)] } : {}),
  });
  t.after(async () => {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  return { server, folder, program };
}

/** The daemons' process. */
function processOf(program: string): number | undefined {
  for (const pid of processIds()) {
    try {
      if (readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(`${program}\0provisioner\0builtin`)) return pid;
    } catch {
      // it has ended
    }
  }
  return undefined;
}

const idle = (server: TestServer) =>
  eventually('a daemon waits for jobs', async () => {
    const path = '/organizations/default/provisionerdaemons?status=idle';
    return (await server.api<ProvisionerDaemon[]>('GET', path)).body.length === 1;
  });

const report = async (server: TestServer) =>
  (await server.api<HealthcheckReport>('GET', '/debug/health?force=true')).body.provisioner_daemons;

const messageOf = async (server: TestServer, version: TemplateVersion) =>
  (await server.api<TemplateVersion>('GET', `/templateversions/${version.id}`)).body.job.pending_reason?.message ?? '';

test('as root: daemons whose program lies below a folder of mode 711 have their own uid', { skip }, async (t) => {
  const { server, program } = await serverBelow(t, 0o711);
  await idle(server);
  assert.ok(
    idsOfProcess(processOf(program)!)!.uids.every((uid) => uid >= 1_000),
    'none of its ids is root',
  );
  assert.deepEqual((await report(server)).warnings, []);
});

test('as root: daemons whose program lies below a closed folder see only the program in it', { skip }, async (t) => {
  const { server, folder, program } = await serverBelow(t, 0o700, { knowsPaths: true });
  await idle(server);
  const pid = processOf(program)!;
  const { uids } = idsOfProcess(pid)!;
  assert.ok(uids.every((uid) => uid >= 1_000));
  const read = (path: string) =>
    spawnSync('nsenter', ['--target', String(pid), '--mount', '--setuid', String(uids[0]), 'cat', path]).status;
  assert.equal(read(program), 0);
  assert.equal(read(join(folder, 'above/secret')), 1);
  assert.equal(statSync(folder).mode & 0o777, 0o700, 'for everybody else the folder stays closed');
  assert.ok(existsSync(join(folder, 'above/secret')));
  const { error, warnings } = await report(server);
  assert.deepEqual([error, warnings], [null, []]);
  const job = await pendingVersion(server);
  await eventually('a daemon imports', async () => {
    const { body } = await server.api<TemplateVersion>('GET', `/templateversions/${job.id}`);
    return body.job.completed_at != null;
  });
});

test('as root: no daemon runs where its user cannot reach the program, and health and waiting jobs say why', {
  skip,
}, async (t) => {
  const { server, folder, program } = await serverBelow(t, 0o700);
  assert.equal(processOf(program), undefined);
  const fix = `because the folder "${folder}" has mode 700. Run "chmod o+x ${folder}".`;
  const { error, severity } = await report(server);
  assert.equal(severity, 'error');
  assert.ok(error?.includes(fix), error ?? '');
  const version = await pendingVersion(server);
  const message = await messageOf(server, version);
  assert.ok(message.includes(fix), message);
  const tagged = await messageOf(server, await pendingVersion(server, { tags: { zone: 'a' } }));
  assert.ok(!tagged.includes(folder), 'a job that no built-in daemon would take waits for other reasons');
});

test('as root: folders that a daemon of root left are put right, and other obstacles are named', {
  skip,
}, async (t) => {
  const { server, program } = await serverBelow(t, 0o755);
  await idle(server);
  const pid = processOf(program)!;
  const daemonUid = idsOfProcess(pid)!.uids[0]!;
  const folder = readlinkSync(`/proc/${pid}/cwd`);
  const work = join(folder, 'provisioner-0/work');
  await eventually('it has its folders', () => existsSync(work));
  // as a daemon that runs as root makes them
  chownSync(dirname(work), 0, 0);
  chmodSync(dirname(work), 0o700);
  chownSync(work, 0, 0);
  process.kill(pid, 'SIGKILL');
  const next = await eventually('another process runs', () => {
    const found = processOf(program);
    return found !== undefined && found !== pid ? found : undefined;
  });
  await eventually('its folder belongs to it', () => statSync(work).uid === daemonUid);

  process.kill(next, 'SIGSTOP');
  rmSync(work, { recursive: true });
  writeFileSync(work, '');
  process.kill(next, 'SIGKILL');
  const version = await pendingVersion(server);
  const named = await eventually('the health page names the crash', async () => {
    const { warnings } = await report(server);
    return warnings.find(({ message }) => message.includes(work))?.message;
  });
  assert.match(
    named,
    /^The built-in provisioner daemons ended unexpectedly \d+ times in a row, last with exit code 1: .*(EEXIST|ENOTDIR)/,
  );
  await server.services.sql`UPDATE provisioner_daemons SET last_seen_at = now() - interval '5 minutes'`;
  await eventually('the waiting job names it, too', async () => (await messageOf(server, version)).includes(work));
  rmSync(work);
  await eventually('the job is taken', async () => (await messageOf(server, version)) === '');
});
