import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type {
  MatchedProvisioners,
  ProvisionerExplanation,
  ProvisionerJob,
  Template,
  TemplateVersion,
  Workspace,
} from '@ropewalk/contract';
import { failTaken, finishImport, pendingVersion, startTestServer, type TestServer, takeJob } from '@ropewalk/testkit';
import { verifiedDaemon } from '../../authz/proofs.ts';
import { createJobQueue } from './queue.ts';
import { UNTAGGED } from './tags.ts';
import { insertDaemon } from './testing/daemons.ts';
import { forgetDaemonGroups } from './waiting.ts';

// A version names the type of provisioner that its jobs need.

let server: TestServer;
let organizationId: string;
before(async () => {
  server = await startTestServer();
  const [organization] = await server.services.sql<{ id: string }[]>`SELECT id FROM organizations WHERE is_default`;
  organizationId = organization!.id;
});
after(() => server.stop());

async function daemon(name: string, type: string): Promise<string> {
  const { id } = await insertDaemon(server, name, UNTAGGED, { provisioners: [type] });
  forgetDaemonGroups(server.services);
  return id;
}

test('jobs of a version go to daemons of its type, and the API says so', async () => {
  const terraform = await daemon('terraform', 'terraform');
  const version = await pendingVersion(server, { provisioner: 'echo' });
  const read = async () => (await server.api<TemplateVersion>('GET', `/templateversions/${version.id}`)).body;
  const waits = (await read()).job.pending_reason!;
  assert.equal(waits.reason, 'no_matching_provisioners');
  assert.match(waits.message, /^No provisioner daemon of this organization runs jobs of type echo: they run terraform/);
  const listed = async (id: string) =>
    (await server.api<ProvisionerJob>('GET', `/organizations/default/provisionerjobs/${id}`)).body;
  assert.equal((await listed(version.job.id)).available_workers?.length ?? 0, 0);

  const echo = await daemon('echo', 'echo');
  assert.deepEqual((await listed(version.job.id)).available_workers, [echo]);
  assert.equal((await read()).job.pending_reason?.matched_provisioners.count, 1);
  await assert.rejects(takeJob(server), /no job waits/);
  await finishImport(server, await takeJob(server, undefined, { provisioners: ['echo'] }));

  const { matched_provisioners: matched, daemons } = (
    await server.api<ProvisionerExplanation>('GET', `/templateversions/${version.id}/provisioners`)
  ).body;
  assert.equal(matched.count, 1);
  assert.deepEqual(
    daemons.map(({ id, can_run }) => [id, can_run]),
    [
      [echo, true],
      [terraform, false],
    ],
  );
  const template = await server.api<Template>('POST', '/organizations/default/templates', {
    body: { name: 'echoed', template_version_id: version.id },
  });
  assert.deepEqual([template.status, template.body.provisioner], [201, 'echo']);

  const dryRun = await server.api<ProvisionerJob>('POST', `/templateversions/${version.id}/dry-run`, { body: {} });
  const path = `/templateversions/${version.id}/dry-run/${dryRun.body.id}/matched-provisioners`;
  assert.equal((await server.api<MatchedProvisioners>('GET', path)).body.count, 1);
  await failTaken(server, await takeJob(server, undefined, { provisioners: ['echo'] }), 'over');
  const workspace = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name: 'echo', template_id: template.body.id },
  });
  assert.equal(workspace.status, 201, JSON.stringify(workspace.body));
  assert.deepEqual((await listed(workspace.body.latest_build.job.id)).available_workers, [echo]);
  await failTaken(server, await takeJob(server, undefined, { provisioners: ['echo'] }), 'over');
});

test('a posted job wakes a waiting daemon of its type, not one of another', async () => {
  // no daemon looks by itself
  const queue = createJobQueue(server.services, { lookAgainMs: 3_600_000 });
  const leave = new AbortController();
  const next = (type: string) =>
    queue.next(
      verifiedDaemon({ id: crypto.randomUUID(), organizationId, provisioners: [type], tags: { ...UNTAGGED } }),
      AbortSignal.any([leave.signal, AbortSignal.timeout(60_000)]),
    );
  try {
    const other = next('terraform');
    const echo = next('echo');
    const version = await pendingVersion(server, { provisioner: 'echo' });
    assert.equal((await echo).id, version.job.id);
    const usual = await pendingVersion(server);
    assert.equal((await other).id, usual.job.id);
  } finally {
    leave.abort(new Error('over'));
    queue.close();
  }
});
