import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { ProvisionerExplanation, ProvisionerJob, Workspace } from '@ropewalk/contract';
import {
  createTestTemplate,
  finishImport,
  pendingVersion,
  startTestServer,
  type TestServer,
  takeJob,
  tarOf,
  uploadSource,
} from '@ropewalk/testkit';
import { eventually } from '@ropewalk/testkit/wait';
import { becomes, insertDaemon, reported, tagged, takeWith } from './testing/daemons.ts';
import { forgetDaemonGroups } from './waiting.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

test('explains why a job waits: no daemon, then all offline, then all busy, then one is free', async () => {
  const { sql } = server.services;
  await insertDaemon(server, 'small', tagged({ zone: 'a', size: 'small' }));
  await insertDaemon(server, 'plain', tagged({}));
  await insertDaemon(server, 'of-someone', { scope: 'user', owner: crypto.randomUUID(), zone: 'a', size: 'large' });
  const version = await pendingVersion(server, { tags: { zone: 'a', size: 'large' } });
  const nobody = (await becomes(server, version, 'no_matching_provisioners'))!;
  assert.deepEqual(nobody.nearest, {
    name: 'small',
    tags: tagged({ zone: 'a', size: 'small' }),
    difference: { missing: {}, different: { size: { wanted: 'large', has: 'small' } }, taken_for_tagged_jobs: false },
  });
  assert.match(nobody.message, /nearest is small: it has size=small, not size=large/);
  assert.deepEqual([nobody.queue_position, nobody.queue_size, nobody.matched_provisioners.count], [0, 0, 0]);

  const large = await insertDaemon(server, 'large', tagged({ zone: 'a', size: 'large', gpu: 'yes' }));
  await sql`UPDATE provisioner_daemons SET last_seen_at = now() - interval '5 minutes' WHERE id = ${large.id}`;
  const away = (await becomes(server, version, 'provisioners_offline'))!;
  assert.deepEqual([away.matched_provisioners.count, away.matched_provisioners.available], [1, 0]);
  assert.ok(away.matched_provisioners.most_recently_seen);

  await sql`UPDATE provisioner_daemons SET last_seen_at = now() WHERE id = ${large.id}`;
  await sql`UPDATE provisioner_jobs SET created_at = now() WHERE id = ${version.job.id}`;
  assert.match((await becomes(server, version, 'starting'))!.message, /1 provisioner daemon can take it now/);

  await sql`UPDATE provisioner_jobs SET created_at = now() - interval '11 seconds' WHERE id = ${version.job.id}`;
  const paused = await eventually('it says that nobody takes it', async () => {
    const reason = await becomes(server, version, 'starting');
    return /can take it now/.test(reason!.message) ? undefined : reason;
  });
  assert.match(paused!.message, /1 provisioner daemon without a job could take it, but does not accept jobs now/);
  await sql`UPDATE provisioner_jobs SET created_at = now() WHERE id = ${version.job.id}`;

  // the daemon works on another job that it may take, and jobs like these took 40 s lately
  const like = await pendingVersion(server, { tags: { zone: 'a', size: 'large' } });
  await sql`UPDATE provisioner_jobs SET started_at = now() - interval '40 seconds', completed_at = now(),
    worker_id = ${large.id} WHERE id = ${like.job.id}`;
  const other = await pendingVersion(server, { tags: { gpu: 'yes' } });
  const taken = await takeWith(server, { ...large, tags: tagged({ gpu: 'yes' }) });
  assert.equal(taken?.id, other.job.id);
  const second = await pendingVersion(server, { tags: { zone: 'a', size: 'large' } });
  // jobs that the same daemon cannot take do not count in the queue
  await pendingVersion(server, { tags: { zone: 'b' } });
  const busy = (await becomes(server, second, 'provisioners_busy'))!;
  assert.deepEqual([busy.queue_position, busy.queue_size, busy.estimated_wait_seconds], [2, 2, 80]);
  assert.match(busy.message, /position 2 of 2, about 80 s to wait/);
  await sql`UPDATE provisioner_jobs SET completed_at = now() WHERE completed_at IS NULL`;
});

test('says for a job of a person’s own daemons who has to run a daemon', async () => {
  const mine = await pendingVersion(server, { tags: { scope: 'user' } });
  const reason = (await becomes(server, mine, 'no_matching_provisioners'))!;
  assert.match(reason.message, /a daemon that its owner runs \(coder provisioner start --tag scope=user\)/);
});

test('cancels a job that was never started, and deletes its workspace, without a daemon', async () => {
  const template = await createTestTemplate(server, 'lonely');
  await server.services.sql`UPDATE provisioner_daemons SET last_seen_at = now() - interval '5 minutes'`;
  const made = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name: 'lonely', template_id: template.id },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const canceled = await server.api('PATCH', `/workspacebuilds/${made.body.latest_build.id}/cancel`);
  assert.equal(canceled.status, 200);
  const deleted = await server.api<{ job: ProvisionerJob }>('POST', `/workspaces/${made.body.id}/builds`, {
    body: { transition: 'delete' },
  });
  assert.equal(deleted.status, 201, JSON.stringify(deleted.body));
  assert.equal(deleted.body.job.status, 'succeeded');
  assert.equal((await server.api('GET', `/workspaces/${made.body.id}`)).status, 410);
});

test('a job waits for a daemon with the version of Terraform that its template requires', async () => {
  const source = await tarOf({
    'main.tf': '# required_version = ">= 9"\nterraform {\n  required_version = "~> 1.12.0"\n}\n',
    'other.tf.json': '{"terraform": {"required_version": ">= 1.12.2"}}',
    'module/main.tf': 'terraform {\n  required_version = "< 1"\n}\n',
  });
  const { body: file } = await server.api<{ hash: string }>('POST', '/files', {
    raw: { type: 'application/x-tar', data: source },
  });
  const tags = tagged({ engines: 'yes' });
  const old = await insertDaemon(server, 'engine-old', tags, reported('terraform 1.11.4, opentofu 1.9.0'));
  const newer = await insertDaemon(server, 'engine-new', tags, reported('terraform 1.13.0'));
  forgetDaemonGroups(server.services);
  const version = await pendingVersion(server, { file_id: file.hash, tags: { engines: 'yes' } });
  const reason = (await becomes(server, version, 'no_matching_provisioners'))!;
  assert.equal(
    reason.message,
    'The template requires Terraform ~> 1.12.0, >= 1.12.2. No provisioner daemon that takes its tags has such a ' +
      'version: engine-new has terraform 1.13.0, engine-old has terraform 1.11.4 and opentofu 1.9.0.',
  );
  assert.equal(reason.matched_provisioners.count, 0);
  const { body: explained } = await server.api<ProvisionerExplanation>(
    'GET',
    `/templateversions/${version.id}/provisioners`,
  );
  assert.equal(
    explained.daemons.find(({ name }) => name === 'engine-new')?.why,
    'it has terraform 1.13.0, and the template requires Terraform ~> 1.12.0, >= 1.12.2',
  );
  assert.equal(await takeWith(server, old, 'terraform 1.11.4, opentofu 1.9.0'), undefined);
  assert.equal(await takeWith(server, newer, 'terraform 1.12.1'), undefined);
  const both = await insertDaemon(server, 'engine-both', tags, reported('terraform 1.11.4, terraform 1.12.2'));
  assert.match((await becomes(server, version, 'starting'))!.message, /1 provisioner daemon can take it now/);
  assert.equal((await takeWith(server, both, 'terraform 1.11.4, terraform 1.12.2'))?.id, version.job.id);

  // the same archive again, for a daemon of upstream's, which reports no versions
  const again = await pendingVersion(server, { file_id: file.hash, tags: { engines: 'yes' } });
  const upstream = await insertDaemon(server, 'engine-upstream', tags);
  assert.equal((await takeWith(server, upstream))?.id, again.job.id);
});

test('builds also need what the fetched modules of their version require, and the reason names it', async () => {
  const requires = (version: string) => `terraform {\n  required_version = "${version}"\n}\n`;
  const source = await tarOf({
    'main.tf': `${requires('>= 1.5')}
module "near" {
  source = "./near"
}
module "far" {
  source = "example.com/a/far/coder"
}
`,
    'near/main.tf': requires('!= 1.6.0'),
  });
  const { body: file } = await server.api<{ hash: string }>('POST', '/files', {
    raw: { type: 'application/x-tar', data: source },
  });
  const tags = tagged({ modules: 'yes' });
  await insertDaemon(server, 'modules-old', tags, reported('terraform 1.8.0'));
  const moduleFiles = (version: string) =>
    tarOf({
      '.terraform/modules/modules.json': JSON.stringify({
        Modules: [{ Key: 'far', Source: 'example.com/a/far/coder', Dir: '.terraform/modules/far' }],
      }),
      '.terraform/modules/far/versions.tf': requires(version),
    });
  const imported = async (required: string) => {
    const version = await pendingVersion(server, { file_id: file.hash, tags: { modules: 'yes' } });
    await becomes(server, version, 'starting');
    await finishImport(server, await takeJob(server, tags), {
      moduleFiles: await moduleFiles(required),
      richParameters: [],
    });
    return version;
  };
  // the same archive twice: only the modules differ
  const [newer, older] = [await imported('>= 1.9'), await imported('< 2')];
  const { body: template } = await server.api<{ id: string }>('POST', '/organizations/default/templates', {
    body: { name: 'with-modules', template_version_id: newer.id },
  });
  const build = async (name: string, versionId: string) =>
    (
      await server.api<Workspace>('POST', '/users/me/workspaces', {
        body: { name, template_version_id: versionId },
      })
    ).body;
  const waits = await build('waits', newer.id);
  const reason = await eventually('a reason', async () => {
    const { body } = await server.api<Workspace>('GET', `/workspaces/${waits.id}`);
    return body.latest_build.job.pending_reason;
  });
  assert.equal(
    reason.message,
    'The template requires Terraform >= 1.5, != 1.6.0, >= 1.9. No provisioner daemon that takes its tags has such a ' +
      'version: modules-old has terraform 1.8.0.',
  );
  const { body: explained } = await server.api<ProvisionerExplanation>(
    'GET',
    `/templateversions/${newer.id}/provisioners`,
  );
  assert.equal(
    explained.daemons.find(({ name }) => name === 'modules-old')?.why,
    'it has terraform 1.8.0, and the template requires Terraform >= 1.5, != 1.6.0, >= 1.9',
  );
  const dryRun = await server.api<ProvisionerJob>('POST', `/templateversions/${newer.id}/dry-run`, {
    body: { workspace_name: 'dry' },
  });
  assert.match(dryRun.body.pending_reason?.message ?? '', /requires Terraform >= 1\.5, != 1\.6\.0, >= 1\.9\./);
  assert.ok(template.id && older.id);
});

test('says which tags a template names, and which flag adds them', async () => {
  const source =
    'variable "zone" {\n  default = "eu"\n}\ndata "coder_parameter" "disk" {\n  name = "disk"\n  default = "ssd"\n}\n' +
    'data "coder_workspace_tags" "t" {\n  tags = {\n    zone = var.zone\n    disk = data.coder_parameter.disk.value\n' +
    '    late = random_id.x.hex\n  }\n}\nresource "random_id" "x" {}\n';
  const file_id = await uploadSource(server, source);
  const variables = [{ name: 'zone', value: 'us' }];
  const version = await pendingVersion(server, { file_id, tags: { disk: 'ssd' }, user_variable_values: variables });
  const reason = version.job.pending_reason!;
  assert.equal(reason.reason, 'no_matching_provisioners');
  assert.deepEqual(reason.template_tags, { zone: 'us' });
  assert.match(reason.message, /names the tags zone=us .*push with --provisioner-tag zone=us\.$/);
  assert.deepEqual(version.job.tags, tagged({ disk: 'ssd' }), 'they do not apply to the import');
  await server.api('PATCH', `/templateversions/${version.id}/cancel`);
});
