import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { ProvisionerExplanation, ProvisionerJob, TemplateVersion, Workspace } from '@ropewalk/contract';
import {
  createTestTemplate,
  finishImport,
  insertPerson,
  pendingVersion,
  startTestServer,
  type TestServer,
  takeJob,
  tarOf,
  uploadSource,
} from '@ropewalk/testkit';
import { eventually } from '@ropewalk/testkit/wait';
import { verifiedDaemon } from '../../authz/proofs.ts';
import { PSK_KEY_ID, upsertDaemon } from '../../db/queries/daemons.ts';
import { ownershipOf } from '../../db/queries/job-ownership.ts';
import { acquireJob } from '../../db/queries/job-queue.ts';
import { enginesOf } from '../job/engines.ts';
import { putBackForEngine } from '../job/post.ts';
import { forgetDaemonGroups } from '../job/waiting.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

const tagged = (more: Record<string, string>) => ({ scope: 'organization', owner: '', ...more });

async function daemon(name: string, tags: Record<string, string>, engines?: string) {
  const { sql } = server.services;
  const [organization] = await sql<{ id: string }[]>`SELECT id FROM organizations WHERE is_default`;
  return upsertDaemon(
    sql,
    verifiedDaemon({
      organization_id: organization!.id,
      name,
      key_id: PSK_KEY_ID,
      credential: name,
      provisioners: ['terraform'],
      tags,
      version: '',
      api_version: '1.8',
      ...enginesOf({ 'platform-engines': engines ?? '' }),
    }),
  );
}

const reasonOf = async (version: TemplateVersion) =>
  (await server.api<TemplateVersion>('GET', `/templateversions/${version.id}`)).body.job.pending_reason;

/** The promised second, and a little more for a busy machine. */
function becomes(version: TemplateVersion, reason: string) {
  const look = async () => {
    const found = await reasonOf(version);
    return found?.reason === reason ? found : undefined;
  };
  return eventually(`the reason ${reason}`, look, 1_500);
}

test('explains why a job waits: no daemon, then all offline, then all busy, then one is free', async () => {
  const { sql } = server.services;
  await daemon('small', tagged({ zone: 'a', size: 'small' }));
  await daemon('plain', tagged({}));
  await daemon('of-someone', { scope: 'user', owner: crypto.randomUUID(), zone: 'a', size: 'large' });
  const version = await pendingVersion(server, { tags: { zone: 'a', size: 'large' } });
  const nobody = (await becomes(version, 'no_matching_provisioners'))!;
  assert.deepEqual(nobody.nearest, {
    name: 'small',
    tags: tagged({ zone: 'a', size: 'small' }),
    difference: { missing: {}, different: { size: { wanted: 'large', has: 'small' } }, taken_for_tagged_jobs: false },
  });
  assert.match(nobody.message, /nearest is small: it has size=small, not size=large/);
  assert.deepEqual([nobody.queue_position, nobody.queue_size, nobody.matched_provisioners.count], [0, 0, 0]);

  const large = await daemon('large', tagged({ zone: 'a', size: 'large', gpu: 'yes' }));
  await sql`UPDATE provisioner_daemons SET last_seen_at = now() - interval '5 minutes' WHERE id = ${large.id}`;
  const away = (await becomes(version, 'provisioners_offline'))!;
  assert.deepEqual([away.matched_provisioners.count, away.matched_provisioners.available], [1, 0]);
  assert.ok(away.matched_provisioners.most_recently_seen);

  await sql`UPDATE provisioner_daemons SET last_seen_at = now() WHERE id = ${large.id}`;
  await sql`UPDATE provisioner_jobs SET created_at = now() WHERE id = ${version.job.id}`;
  assert.match((await becomes(version, 'starting'))!.message, /1 provisioner daemon can take it now/);

  await sql`UPDATE provisioner_jobs SET created_at = now() - interval '11 seconds' WHERE id = ${version.job.id}`;
  const paused = await eventually('it says that nobody takes it', async () => {
    const reason = await becomes(version, 'starting');
    return /can take it now/.test(reason!.message) ? undefined : reason;
  });
  assert.match(paused!.message, /1 provisioner daemon without a job could take it, but does not accept jobs now/);
  await sql`UPDATE provisioner_jobs SET created_at = now() WHERE id = ${version.job.id}`;

  // the daemon works on another job that it may take, and jobs like these took 40 s lately
  const like = await pendingVersion(server, { tags: { zone: 'a', size: 'large' } });
  await sql`UPDATE provisioner_jobs SET started_at = now() - interval '40 seconds', completed_at = now(),
    worker_id = ${large.id} WHERE id = ${like.job.id}`;
  const other = await pendingVersion(server, { tags: { gpu: 'yes' } });
  const taken = await acquireJob(sql, {
    worker: verifiedDaemon({
      id: large.id,
      organizationId: large.organization_id,
      provisioners: ['terraform'],
      tags: tagged({ gpu: 'yes' }),
    }),
    leaseMs: 60_000,
  });
  assert.equal(taken?.id, other.job.id);
  const second = await pendingVersion(server, { tags: { zone: 'a', size: 'large' } });
  // jobs that the same daemon cannot take do not count in the queue
  await pendingVersion(server, { tags: { zone: 'b' } });
  const busy = (await becomes(second, 'provisioners_busy'))!;
  assert.deepEqual([busy.queue_position, busy.queue_size, busy.estimated_wait_seconds], [2, 2, 80]);
  assert.match(busy.message, /position 2 of 2, about 80 s to wait/);
  await sql`UPDATE provisioner_jobs SET completed_at = now() WHERE completed_at IS NULL`;
});

test('says for a job of a person’s own daemons who has to run a daemon', async () => {
  const mine = await pendingVersion(server, { tags: { scope: 'user' } });
  const reason = (await becomes(mine, 'no_matching_provisioners'))!;
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

test('explains which daemons can run a template and why others cannot', async () => {
  const template = await createTestTemplate(server, 'explained', {
    richParameters: [{ name: 'a', type: 'number', mutable: true, required: true }],
  });
  const own = await insertPerson(server, 'explainer');
  await daemon('mine-alone', { scope: 'user', owner: own.id });
  const path = `/templateversions/${template.active_version_id}/provisioners`;
  const { body } = await server.api<ProvisionerExplanation>('GET', path);
  assert.deepEqual(body.tags, tagged({}));
  const byName = new Map(body.daemons.map((one) => [one.name, one]));
  assert.equal(body.daemons[0]!.name, 'plain');
  assert.deepEqual([body.matched_provisioners.count, body.matched_provisioners.available], [1, 0]);
  assert.equal(byName.get('plain')!.can_run, true);
  assert.equal(byName.get('small')!.why, 'it is tagged and takes tagged jobs only');
  assert.ok(byName.has('of-someone'));
  assert.equal((await server.api('GET', `${path}?parameters=[1]`)).status, 400);
  const withParameters = async (given: object) =>
    (await server.api('GET', `${path}?parameters=${encodeURIComponent(JSON.stringify(given))}`)).status;
  assert.equal(await withParameters({ a: 'b' }), 200, 'the form checks dynamic parameters');
  const classic = { use_classic_parameter_flow: true };
  assert.equal((await server.api('PATCH', `/templates/${template.id}`, { body: classic })).status, 200);
  assert.equal(await withParameters({ a: '1' }), 200);
  assert.equal(await withParameters({ a: 'b' }), 400);
  assert.equal(await withParameters({ b: '1' }), 400);
  const seen = (await server.api<ProvisionerExplanation>('GET', path, { token: own.token })).body.daemons;
  assert.ok(seen.some(({ name }) => name === 'mine-alone'));
  assert.ok(!seen.some(({ name }) => name === 'of-someone'), 'another person’s daemon is shown');
});

test('a job waits for a daemon with the version of Terraform that its template requires', async () => {
  const { sql } = server.services;
  const source = await tarOf({
    'main.tf': '# required_version = ">= 9"\nterraform {\n  required_version = "~> 1.12.0"\n}\n',
    'other.tf.json': '{"terraform": {"required_version": ">= 1.12.2"}}',
    'module/main.tf': 'terraform {\n  required_version = "< 1"\n}\n',
  });
  const { body: file } = await server.api<{ hash: string }>('POST', '/files', {
    raw: { type: 'application/x-tar', data: source },
  });
  const tags = tagged({ engines: 'yes' });
  const rows = {
    old: await daemon('engine-old', tags, 'terraform 1.11.4, opentofu 1.9.0'),
    new: await daemon('engine-new', tags, 'terraform 1.13.0'),
  };
  forgetDaemonGroups(server.services);
  const version = await pendingVersion(server, { file_id: file.hash, tags: { engines: 'yes' } });
  const reason = (await becomes(version, 'no_matching_provisioners'))!;
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
  const take = (engines: string, id: string) =>
    acquireJob(sql, {
      worker: verifiedDaemon({
        id,
        organizationId: rows.old.organization_id,
        provisioners: ['terraform'],
        tags,
        engineVersions: enginesOf({ 'platform-engines': engines }).engine_versions,
      }),
      leaseMs: 60_000,
    });
  assert.equal(await take('terraform 1.11.4, opentofu 1.9.0', rows.old.id), undefined);
  assert.equal(await take('terraform 1.12.1', rows.new.id), undefined);
  const both = await daemon('engine-both', tags, 'terraform 1.11.4, terraform 1.12.2');
  assert.match((await becomes(version, 'starting'))!.message, /1 provisioner daemon can take it now/);
  assert.equal((await take('terraform 1.11.4, terraform 1.12.2', both.id))?.id, version.job.id);

  // the same archive again, for a daemon of upstream's, which reports no versions
  const again = await pendingVersion(server, { file_id: file.hash, tags: { engines: 'yes' } });
  const upstream = await daemon('engine-upstream', tags);
  assert.equal((await take('', upstream.id))?.id, again.job.id);
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
  await daemon('modules-old', tags, 'terraform 1.8.0');
  const moduleFiles = (version: string) =>
    tarOf({
      '.terraform/modules/modules.json': JSON.stringify({
        Modules: [{ Key: 'far', Source: 'example.com/a/far/coder', Dir: '.terraform/modules/far' }],
      }),
      '.terraform/modules/far/versions.tf': requires(version),
    });
  const imported = async (required: string) => {
    const version = await pendingVersion(server, { file_id: file.hash, tags: { modules: 'yes' } });
    await becomes(version, 'starting');
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

test('an import whose fetched module requires another version goes back to the queue for it, at most three times', async () => {
  const tags = tagged({ stricter: 'yes' });
  const { sql } = server.services;
  const older = await daemon('stricter-older', tags, 'terraform 1.9.8');
  const newer = await daemon('stricter-newer', tags, 'terraform 1.12.2');
  forgetDaemonGroups(server.services);
  const take = (row: { id: string; organization_id: string }, engines: string) =>
    acquireJob(sql, {
      worker: verifiedDaemon({
        id: row.id,
        organizationId: row.organization_id,
        provisioners: ['terraform'],
        tags,
        engineVersions: enginesOf({ 'platform-engines': engines }).engine_versions,
      }),
      leaseMs: 60_000,
    });
  const ownedBy = (row: { id: string }, epoch: number) =>
    ownershipOf(verifiedDaemon({ id: row.id }), version.job.id, epoch);
  const version = await pendingVersion(server, { tags: { stricter: 'yes' } });
  assert.equal((await take(older, 'terraform 1.9.8'))?.acquire_epoch, 1);
  const { services } = server;
  const own = ownedBy(older, 1);
  await assert.rejects(putBackForEngine(services, own, '>= 1,'.repeat(1_000)), /more than 4096 characters/);
  assert.equal(await putBackForEngine(services, own, '>= 2, < 1'), false, 'no version satisfies it');
  assert.equal(await putBackForEngine(services, ownedBy(newer, 1), '>= 1.10'), false, 'the job of another daemon');
  assert.equal(await putBackForEngine(services, own, '>= 1.13'), true);
  assert.equal(await putBackForEngine(services, own, '>= 1.13'), false, 'it has no owner now');
  const reason = (await becomes(version, 'no_matching_provisioners'))!;
  assert.match(reason.message, /The template requires Terraform >= 1\.13\. .* stricter-newer has terraform 1\.12\.2/);
  assert.equal(await take(older, 'terraform 1.9.8'), undefined);
  assert.equal(await take(newer, 'terraform 1.12.2'), undefined);
  assert.equal((await take(newer, 'terraform 1.13.1'))?.acquire_epoch, 2);
  assert.equal(await putBackForEngine(services, ownedBy(newer, 2), '>= 1.14'), true);
  assert.equal((await take(newer, 'terraform 1.14.0'))?.acquire_epoch, 3);
  assert.equal(await putBackForEngine(services, ownedBy(newer, 3), '>= 1.15'), false, 'the third time');
  const { body: logs } = await server.api<{ output: string }[]>('GET', `/templateversions/${version.id}/logs`);
  assert.deepEqual(
    logs.map(({ output }) => output),
    ['>= 1.13', '>= 1.14'].map(
      (wanted) => `The job goes back to the queue, for a provisioner daemon with Terraform ${wanted}.`,
    ),
  );
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

test('replaces a version whose import waits by one with other tags, and keeps everything else', async () => {
  const { sql } = server.services;
  const template = await createTestTemplate(server, 'replaced');
  const given = {
    template_id: template.id,
    name: 'v2',
    message: 'Faster disks',
    tags: { disk: 'ssd' },
    user_variable_values: [{ name: 'secret', value: 'not shown by any route' }],
  };
  const waiting = await pendingVersion(server, given);
  const replace = (id: string, more: object = {}, token?: string) =>
    server.api<TemplateVersion>('POST', '/organizations/default/templateversions', {
      body: {
        provisioner: 'terraform',
        storage_method: 'file',
        replaces: id,
        tags: { disk: 'ssd', zone: 'us' },
        ...more,
      },
      ...(token === undefined ? {} : { token }),
    });
  const member = await insertPerson(server, 'replacer');
  assert.equal((await replace(waiting.id, {}, member.token)).status, 403);
  assert.equal((await replace(waiting.id, { file_id: waiting.job.file_id })).status, 400);

  // its variables may be secrets of this template
  const other = await createTestTemplate(server, 'another');
  const { status, body: next } = await replace(waiting.id, { template_id: other.id });
  assert.equal(status, 201, JSON.stringify(next));
  assert.deepEqual(
    [next.name, next.message, next.template_id, next.job.file_id, next.job.tags],
    ['v2', 'Faster disks', template.id, waiting.job.file_id, tagged({ disk: 'ssd', zone: 'us' })],
  );
  const [job] = await sql<{ input: { user_variable_values: object[] } }[]>`
    SELECT input FROM provisioner_jobs WHERE id = ${next.job.id}`;
  assert.deepEqual(job!.input.user_variable_values, given.user_variable_values);
  const { body: before } = await server.api<TemplateVersion>('GET', `/templateversions/${waiting.id}`);
  assert.deepEqual(
    [before.job.status, before.archived, before.name],
    ['canceled', true, `unused-${waiting.id.slice(0, 8)}`],
  );

  const again = await replace(waiting.id);
  assert.equal(again.status, 412);
  assert.match(JSON.stringify(again.body), /its import is canceled/);
  await takeJob(server, tagged({ disk: 'ssd', zone: 'us' }));
  assert.equal((await replace(next.id)).status, 412, 'a daemon has its import');

  // a version that has no template yet
  const first = await pendingVersion(server, { name: 'first', tags: { disk: 'ssd' } });
  const { body: second } = await replace(first.id);
  assert.deepEqual([second.name, second.template_id ?? null], ['first', null]);
  await server.api('PATCH', `/templateversions/${second.id}/cancel`);
});
