import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { connect, type Sql } from '@ropewalk/server/db/connect';
import { makeKey, startDaemon } from './daemon-process.ts';
import {
  buildEnds,
  createWorkspace,
  eventually,
  firstUser,
  killTree,
  makeTemplate,
  type ServerProcess,
  startCoderServer,
} from './harness.ts';

const KILLS = 5;
const BUILDS = 10;
/** Resources that the log reported complete this long before the kill are in the state. The docs promise 1 s. */
const KNOWN_WITHIN_MS = 2_000;

let server: ServerProcess;
let sql: Sql;
before(async () => {
  server = await startCoderServer({ env: { CODER_PROVISIONER_DAEMONS: '0', CODER_PROVISIONER_LEASE: '10s' } });
  await firstUser(server);
  sql = connect(server.databaseUrl!, { max: 1 });
});
after(async () => {
  await sql?.end();
  await server?.stop();
});

/** Many small resources in four chains, so that Terraform rewrites the state file all the time. */
const TEMPLATE = {
  'main.tf': `
terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}
${Array.from(
  { length: 48 },
  (_, i) => `
resource "terraform_data" "r${i}" {
  input      = "${'x'.repeat(200)}"
  depends_on = [${i < 4 ? '' : `terraform_data.r${i - 4}`}]
  provisioner "local-exec" {
    command = "sleep 0.5"
  }
}`,
).join('\n')}
`,
};

interface Known {
  id: string;
  state: string | null;
}
interface State {
  version: number;
  serial: number;
  lineage: string;
  resources: { name: string; instances: object[] }[];
}
const names = ({ resources }: State) =>
  resources.filter(({ instances }) => instances.length > 0).map(({ name }) => name);

test('never loses a state after kill -9 of daemon, runner and terraform with their folders, in fifty applies', {
  timeout: 240_000,
}, async () => {
  const env = { CODER_PROVISIONER_DAEMON_KEY: await makeKey(server, 'states', { way: 'states' }) };
  const args = ['--concurrency', String(BUILDS)];
  let template: string | undefined;
  /** The last observed state of each build. */
  const last = new Map<string, State>();
  let samples = 0;
  const look = async () => {
    const rows = await sql<Known[]>`
      SELECT id, convert_from(provisioner_state, 'UTF8') AS state FROM workspace_builds`;
    for (const { id, state } of rows) {
      const before = last.get(id);
      if (!state) {
        assert.equal(before, undefined, `build ${id} had a state of serial ${before?.serial} and has none`);
        continue;
      }
      const now = JSON.parse(state) as State;
      if (before) {
        assert.equal(now.lineage, before.lineage);
        assert.ok(now.serial >= before.serial, `build ${id}: ${now.serial} after ${before.serial}`);
        const lost = names(before).filter((name) => !names(now).includes(name));
        assert.deepEqual(lost, [], `build ${id} lost resources`);
      }
      last.set(id, now);
      samples++;
    }
  };
  const builds: string[] = [];
  for (let round = 0; round < KILLS; round++) {
    const daemon = await startDaemon(server, { name: `states-${round}`, env, args });
    template ??= await makeTemplate(server, 'states', TEMPLATE, { tags: { way: 'states' } });
    const made = await Promise.all(
      Array.from({ length: BUILDS }, (_, i) => createWorkspace(server, template!, `s${round}-${i}`)),
    );
    const ids = made.map(({ latest_build }) => latest_build.id);
    builds.push(...ids);
    await eventually(
      'every build has a resource',
      async () => {
        await look();
        return ids.every((id) => last.has(id) && names(last.get(id)!).length > 0);
      },
      60_000,
    );
    // each round kills at another moment of the applies
    for (const until = performance.now() + round * 300; performance.now() < until; ) {
      await look();
      await delay(10);
    }
    const [at] = await sql<{ now: Date }[]>`SELECT now()`;
    const killed = killTree(daemon.child.pid!);
    rmSync(daemon.cacheDir, { recursive: true, force: true, maxRetries: 20, retryDelay: 20 });
    await daemon.exited;
    assert.ok(killed.length > 2, 'a runner and terraform existed');
    await look();
    const reported = await sql<{ id: string; output: string }[]>`
      SELECT b.id, l.output FROM provisioner_job_logs l JOIN workspace_builds b ON b.job_id = l.job_id
      WHERE b.id = ANY(${ids}) AND l.output LIKE '%: Creation complete after%'
        AND l.created_at < ${at!.now}::timestamptz - ${KNOWN_WITHIN_MS} * interval '1 millisecond'`;
    for (const { id, output } of reported) {
      const name = /terraform_data\.(r\d+)/.exec(output)![1]!;
      assert.ok(names(last.get(id)!).includes(name), `the state of build ${id} lacks ${name}`);
    }
  }
  for (const id of builds) {
    const { status, job } = await buildEnds(server, id, 60_000);
    assert.equal(status, 'failed');
    assert.match(job.error!, /daemon was lost.*last known state was kept/s);
  }
  await look();
  assert.equal(last.size, KILLS * BUILDS);
  assert.ok(samples > 500, `${samples} looks`);
});
