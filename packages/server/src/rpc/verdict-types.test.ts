import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { ProvisionerJob, Template, Workspace } from '@ropewalk/contract';
import { createTestTemplate, eventually, pendingVersion, startTestServer, type TestServer } from '@ropewalk/testkit';
import { CompletedJobSchema, FailedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { type JoinedDaemon, joinDaemon } from './testing/daemons.ts';

// A daemon may end a job of one type with a verdict of another. The job then fails, nothing of the verdict is stored,
// and no transaction stays open.

const PSK = 'verdict test key';
let server: TestServer;
let template: Template;
let joined: JoinedDaemon;
before(async () => {
  server = await startTestServer({ env: { CODER_PROVISIONER_DAEMON_PSK: PSK } });
  template = await createTestTemplate(server, 'base');
  joined = await joinDaemon(server, 'wrong', { psk: PSK });
});
after(async () => {
  await joined.session.close();
  await server.stop();
});

/** Acquires the waiting job. */
async function take(): Promise<string> {
  const acquire = joined.daemon.acquireJobWithCancel();
  const job = await acquire.receive();
  acquire.cancel();
  return job!.jobId;
}

let names = 0;

/** Creates a job of each type, and returns how to read it. */
const jobs = {
  templateImport: async () => {
    const { id } = await pendingVersion(server);
    return async () => (await server.api<{ job: ProvisionerJob }>('GET', `/templateversions/${id}`)).body.job;
  },
  templateDryRun: async () => {
    const path = `/templateversions/${template.active_version_id}/dry-run`;
    const { body } = await server.api<ProvisionerJob>('POST', path, { body: {} });
    return async () => (await server.api<ProvisionerJob>('GET', `${path}/${body.id}`)).body;
  },
  workspaceBuild: async () => {
    names += 1;
    const body = { name: `w${names}`, template_id: template.id };
    const made = await server.api<Workspace>('POST', '/users/me/workspaces', { body });
    assert.equal(made.status, 201);
    const path = `/workspacebuilds/${made.body.latest_build.id}`;
    return async () => (await server.api<{ job: ProvisionerJob }>('GET', path)).body.job;
  },
};
type Kind = keyof typeof jobs;

const state = Buffer.from(JSON.stringify({ version: 4, serial: 1, lineage: 'wrong', resources: [] }));
const resources = [{ name: 'found', type: 'vm', agents: [{ name: 'main' }] }];
const modules = [{ source: 'x', version: '1', key: 'm' }];
/** Results with something in each part. */
const results = {
  templateImport: {
    startResources: resources,
    stopModules: modules,
    richParameters: [{ name: 'p', type: 'string' }],
    presets: [{ name: 'preset' }],
    hasAiTasks: true,
    plan: Buffer.from('{}'),
  },
  templateDryRun: { resources, modules },
  workspaceBuild: { state, resources, modules, resourceReplacements: [{ resource: 'r', paths: ['p'] }], aiTasks: [{}] },
};

const typeOf = (kind: Kind | 'none' | 'unknown', value: object) =>
  kind === 'none' || kind === 'unknown' ? { case: undefined } : { case: kind, value };

/** A part that this version of the protocol does not know. */
const unknown = { $unknown: [{ no: 15, wireType: 2, data: new Uint8Array([2, 8, 1]) }] };

const NAMES = { templateImport: 'a template import', templateDryRun: 'a dry run', workspaceBuild: 'a workspace build' };

/** What the job's verdict has left in the database. */
async function traces(jobId: string): Promise<number> {
  const [row] = await server.services.sql<{ count: number }[]>`SELECT
    (SELECT count(*) FROM workspace_resources WHERE job_id = ${jobId})
    + (SELECT count(*) FROM workspace_modules WHERE job_id = ${jobId})
    + (SELECT count(*) FROM template_version_parameters WHERE template_version_id IN
        (SELECT id FROM template_versions WHERE job_id = ${jobId}))
    + (SELECT count(*) FROM workspace_builds WHERE job_id = ${jobId} AND length(provisioner_state) > 0) AS count`;
  return row!.count;
}

/** Waits until no transaction is open. Those of background tasks end soon. One that hangs stays for 30 s. */
const noOpenTransactions = () =>
  eventually(
    'no transaction is open',
    async () => {
      const [row] = await server.services.sql<{ count: number }[]>`SELECT count(*) AS count FROM pg_stat_activity
        WHERE datname = current_database() AND state LIKE 'idle in transaction%'`;
      return row!.count === 0;
    },
    10_000,
  );

const kinds = Object.keys(jobs) as Kind[];
for (const kind of kinds) {
  for (const sent of [...kinds, 'none', 'unknown'] as const) {
    if (sent === kind) continue;
    for (const verdict of ['complete', 'fail'] as const) {
      test(`${verdict}: ${NAMES[kind]} with the verdict of ${sent}`, async () => {
        const read = await jobs[kind]();
        const jobId = await take();
        const extra = sent === 'unknown' ? unknown : {};
        if (verdict === 'complete') {
          const type = typeOf(sent, sent in results ? results[sent as Kind] : {});
          const done = create(CompletedJobSchema, { jobId, type: type as never });
          await joined.daemon.completeJob(Object.assign(done, extra));
        } else {
          const type = typeOf(sent, sent === 'workspaceBuild' ? { state } : {});
          const failed = create(FailedJobSchema, { jobId, error: 'it broke', type: type as never });
          await joined.daemon.failJob(Object.assign(failed, extra));
        }
        const { status, error } = await read();
        assert.equal(status, 'failed');
        const expected = `The provisioner daemon ended ${NAMES[kind]} with the result of ${NAMES[sent as Kind] ?? 'no known type of job'}.`;
        if (verdict === 'complete') assert.equal(error, expected);
        else assert.equal(error, sent in NAMES ? `${expected} it broke` : 'it broke');
        assert.equal(await traces(jobId), 0);
        await noOpenTransactions();
      });
    }
  }

  test(`update: ${NAMES[kind]} with the readme, variables and tags of a template`, async () => {
    const read = await jobs[kind]();
    const jobId = await take();
    const facts = { readme: Buffer.from('read me'), templateVariables: [{ name: 'v' }], workspaceTags: { a: 'b' } };
    const update = joined.daemon.updateJob({ jobId, ...facts });
    if (kind === 'templateImport') await update;
    else await assert.rejects(update, /This job does not import a template version/);
    assert.equal((await read()).status, 'running');
    await joined.daemon.failJob({ jobId, error: 'over' });
    await noOpenTransactions();
  });
}

test('many daemons that no longer own their jobs do not wait for one another', async () => {
  const { sql } = server.services;
  const { body } = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name: 'taken', template_id: template.id },
  });
  const jobId = await take();
  await joined.daemon.updateJob({ jobId });
  await sql`UPDATE provisioner_jobs SET acquire_epoch = acquire_epoch + 1 WHERE id = ${jobId}`;
  const done = { jobId, type: { case: 'workspaceBuild' as const, value: {} } };
  // more than the pool has connections
  await Promise.all(
    Array.from({ length: 25 }, () =>
      assert.rejects(joined.daemon.completeJob(done, { timeoutMs: 10_000 }), /you don't own this job/),
    ),
  );
  assert.equal((await server.api('GET', `/workspaces/${body.id}`)).status, 200);
});
