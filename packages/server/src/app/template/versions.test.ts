import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type {
  MatchedProvisioners,
  Preset,
  ProvisionerJob,
  ProvisionerJobLog,
  Template,
  TemplateExample,
  TemplateVersion,
  TemplateVersionParameter,
  TemplateVersionVariable,
  WorkspaceResource,
} from '@ropewalk/contract';
import { STARTERS } from '@ropewalk/rules/starter-ids';
import {
  createTestTemplate,
  failTaken,
  finishImport,
  importedVersion,
  insertPerson,
  pendingVersion,
  startTestServer,
  type TestServer,
  takeJob,
  uploadSource,
} from '@ropewalk/testkit';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { dialWebSocket } from '@ropewalk/wire/websocket';
import { systemTask } from '../../authz/proofs.ts';
import { insertJobLogs } from '../../db/queries/job-logs.ts';
import { systemContext } from '../context/context.ts';
import { completeJob } from '../job/complete.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

const get = <T>(path: string) => server.api<T>('GET', `/templateversions/${path}`);
const createVersion = (body: Record<string, unknown>, token?: string) =>
  server.api<TemplateVersion & { validations?: { field: string }[] }>(
    'POST',
    '/organizations/default/templateversions',
    { body: { storage_method: 'file', provisioner: 'terraform', ...body }, ...(token ? { token } : {}) },
  );

async function writeLogs(jobId: string, ...outputs: string[]): Promise<void> {
  const logs = outputs.map((output) => ({
    source: 'provisioner' as const,
    level: 'info' as const,
    stage: 'Planning',
    output,
    createdAt: new Date(),
  }));
  const task = systemTask(systemContext(server.services, 'test'));
  await insertJobLogs(server.services.sql, { task, id: jobId }, logs);
  await server.services.events.publish(server.services.sql, 'job_changed', { job_id: jobId });
}

test('creates a version from an upload or a starter template, with a name, tags and a pending job', async () => {
  const version = await pendingVersion(server, { name: 'v1.0', message: 'first', tags: { gpu: 'yes', none: '' } });
  assert.deepEqual([version.name, version.message, version.job.status], ['v1.0', 'first', 'pending']);
  assert.deepEqual(version.job.tags, { scope: 'organization', owner: '', gpu: 'yes', none: '' });
  assert.deepEqual(version.matched_provisioners, { count: 0, available: 0 });
  await failTaken(server, await takeJob(server, version.job.tags), 'enough');
  const mine = await pendingVersion(server, { tags: { scope: 'user' } });
  assert.equal(mine.job.tags['owner'], mine.created_by.id);
  await failTaken(server, await takeJob(server, mine.job.tags), 'enough');
  const { body: examples } = await server.api<TemplateExample[]>('GET', '/templates/examples');
  assert.deepEqual(
    examples.map(({ id }) => id),
    STARTERS,
    'the one that needs the least is first',
  );
  for (const example of examples) {
    assert.ok(example.name && example.description && example.markdown, example.id);
    assert.ok(!example.markdown.startsWith('---'), example.id);
    const made = await createVersion({ example_id: example.id });
    assert.equal(made.status, 201);
    const archive = await server.api<string>('GET', `/files/${made.body.job.file_id}`);
    assert.match(archive.body, /main\.tf/);
    await failTaken(server, await takeJob(server), 'enough');
  }
  const renamed = await createVersion({ example_id: 'nomad' });
  assert.equal(renamed.status, 201, 'an id of an earlier release works');
  await failTaken(server, await takeJob(server), 'enough');
  const ofOrganization = await server.api<TemplateExample[]>('GET', '/organizations/default/templates/examples');
  assert.deepEqual(ofOrganization.body, examples);
});

test('rejects a version without a source, with two, with an unknown one or with another person’s', async () => {
  const file_id = await uploadSource(server);
  assert.equal((await createVersion({})).status, 400);
  assert.equal((await createVersion({ file_id, example_id: 'local' })).status, 400);
  assert.equal((await createVersion({ file_id: crypto.randomUUID() })).status, 404);
  assert.equal((await createVersion({ example_id: '../packages' })).status, 404);
  assert.equal((await createVersion({ file_id, template_id: crypto.randomUUID() })).status, 404);
  for (const name of ['no good', '-', 'x'.repeat(65), 'a..b']) {
    assert.equal((await createVersion({ file_id, name })).status, 400, name);
  }
  assert.equal((await createVersion({ file_id, tags: { a: 'nul\0' } })).status, 400);
  const member = await insertPerson(server, 'member');
  assert.equal((await createVersion({ file_id }, member.token)).status, 403);
  assert.equal((await get('nonsense')).status, 400);
  assert.equal((await get(crypto.randomUUID())).status, 404);
});

test('lets people who may change a template read and reuse its source, and nobody else', async () => {
  const text = '# of a colleague';
  const file_id = await uploadSource(server, text);
  const version = await importedVersion(server, { file_id });
  const made = await server.api<Template>('POST', '/organizations/default/templates', {
    body: { name: 'shared', template_version_id: version.id },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const template = made.body;
  const own = await uploadSource(server, '# of no template');
  const editor = await insertPerson(server, 'editor');
  const manager = await insertPerson(server, 'manager');
  const user = await insertPerson(server, 'reader');
  const acl = { user_perms: { [editor.id]: 'admin', [user.id]: 'use' } };
  assert.equal((await server.api('PATCH', `/templates/${template.id}/acl`, { body: acl })).status, 200);
  const roles = { roles: ['organization-template-admin'] };
  const given = await server.api('PUT', `/organizations/default/members/${manager.id}/roles`, { body: roles });
  assert.equal(given.status, 200, JSON.stringify(given.body));
  const read = (id: string, token: string) => server.api<string>('GET', `/files/${id}`, { token });
  for (const { token } of [editor, manager]) {
    const found = await read(file_id, token);
    assert.equal(found.status, 200);
    assert.ok(found.body.includes(text));
    assert.equal((await createVersion({ file_id, template_id: template.id }, token)).status, 201);
    await failTaken(server, await takeJob(server), 'enough');
    assert.equal((await read(own, token)).status, 404);
    const unreadable = await createVersion({ file_id: own, template_id: template.id }, token);
    const absent = await createVersion({ file_id: crypto.randomUUID(), template_id: template.id }, token);
    assert.deepEqual([unreadable.status, unreadable.body], [404, absent.body]);
  }
  assert.equal((await read(file_id, user.token)).status, 404);
  // the same file of a deleted template
  assert.equal((await server.api('DELETE', `/templates/${template.id}`)).status, 200);
  assert.equal((await read(file_id, manager.token)).status, 404);
});

test('shows the results of an import when it has ended, without sensitive values', async () => {
  const version = await pendingVersion(server);
  const own = await takeJob(server);
  for (const part of ['resources', 'rich-parameters', 'variables']) {
    assert.equal((await get(`${version.id}/${part}`)).status, 412, part);
  }
  await server.services.sql`INSERT INTO template_version_variables
    (template_version_id, name, type, value, default_value, sensitive) VALUES
    (${version.id}, 'secret', 'string', 'hunter2', 'hunter1', true), (${version.id}, 'zones', 'list(string)', '["a"]', '', false)`;
  await finishImport(server, own, {
    startResources: [
      { name: 'disk', type: 'disk' },
      {
        name: 'machine',
        type: 'machine',
        agents: [
          {
            id: '',
            name: 'main',
            operatingSystem: 'linux',
            architecture: 'amd64',
            auth: { case: 'token', value: crypto.randomUUID() },
          },
        ],
      },
    ],
    stopResources: [
      {
        name: 'rest',
        type: 'disk',
        metadata: [
          { key: 'z', value: '1' },
          { key: 'unset', isNull: true },
          { key: 'a', value: '2' },
        ],
      },
    ],
    richParameters: [
      { name: 'size', type: 'number', description: '**How** [big](https://x)', validationMin: 1, order: 2 },
      { name: 'region', type: 'string', required: true, options: [{ name: 'Here', value: 'here' }], order: 1 },
      { name: 'Zoo', type: 'string', order: 3 },
      { name: 'ant', type: 'string', order: 3 },
      { name: 'Bee', type: 'string', order: 3 },
    ],
    presets: [
      {
        name: 'Small',
        parameters: [{ name: 'size', value: '1' }],
        default: true,
        prebuild: {
          instances: 2,
          expirationPolicy: { ttl: 86_400 },
          scheduling: { timezone: 'Europe/Berlin', schedule: [{ cron: '* 8-18 * * 1-5', instances: 5 }] },
        },
      },
      { name: 'Zero', description: 'None', icon: '/icon/x.svg' },
    ],
  });
  const resources = (await get<WorkspaceResource[]>(`${version.id}/resources`)).body;
  assert.deepEqual(
    resources.map(({ name }) => name),
    ['machine', 'disk', 'rest'],
  );
  assert.deepEqual(
    resources.map(({ workspace_transition: transition }) => transition),
    ['start', 'start', 'stop'],
  );
  assert.deepEqual(
    resources[2]!.metadata?.map(({ key, value }) => [key, value]),
    [
      ['z', '1'],
      ['unset', ''],
      ['a', '2'],
    ],
  );
  assert.equal(resources[0]!.agents![0]!.name, 'main');
  const parameters = (await get<TemplateVersionParameter[]>(`${version.id}/rich-parameters`)).body;
  assert.deepEqual(
    parameters.map(({ name }) => name),
    ['region', 'size', 'ant', 'Bee', 'Zoo'],
  );
  assert.equal(parameters[1]!.description_plaintext, 'How big (https://x)');
  assert.equal(parameters[1]!.validation_min, 1);
  assert.ok(!('validation_max' in parameters[1]!));
  const presets = (await get<Preset[]>(`${version.id}/presets`)).body;
  const [small, zero] = presets;
  assert.deepEqual(small, {
    ID: small!.ID,
    Name: 'Small',
    Parameters: [{ Name: 'size', Value: '1' }],
    Default: true,
    DesiredPrebuildInstances: 2,
    Description: '',
    Icon: '',
  });
  assert.deepEqual([zero!.Name, zero!.Default, zero!.DesiredPrebuildInstances], ['Zero', false, null]);
  const stored = await server.services.sql`SELECT name, prebuild_ttl_seconds, prebuild_time_zone, prebuild_schedules
    FROM template_version_presets WHERE template_version_id = ${version.id} ORDER BY name`;
  assert.deepEqual(
    stored.map((row) => ({ ...row })),
    [
      {
        name: 'Small',
        prebuild_ttl_seconds: 86_400,
        prebuild_time_zone: 'Europe/Berlin',
        prebuild_schedules: [{ cron: '* 8-18 * * 1-5', instances: 5 }],
      },
      { name: 'Zero', prebuild_ttl_seconds: null, prebuild_time_zone: '', prebuild_schedules: [] },
    ],
  );
  const variables = await get<TemplateVersionVariable[]>(`${version.id}/variables`);
  assert.ok(!JSON.stringify(variables.body).includes('hunter'));
  assert.deepEqual(
    variables.body.map(({ name, type, value }) => [name, type, value]),
    [
      ['secret', 'string', '*redacted*'],
      ['zones', 'string', '["a"]'],
    ],
  );
  assert.deepEqual((await get(`${version.id}/schema`)).body, []);
  assert.deepEqual((await get(`${version.id}/parameters`)).body, []);
});

test('cancels an import once, and rejects it for an import that has ended', async () => {
  const version = await pendingVersion(server);
  const cancel = () => server.api<{ message: string }>('PATCH', `/templateversions/${version.id}/cancel`);
  const member = await insertPerson(server, 'bystander');
  assert.equal(
    (await server.api('PATCH', `/templateversions/${version.id}/cancel`, { token: member.token })).status,
    404,
  );
  assert.equal((await cancel()).status, 200);
  assert.equal((await get<TemplateVersion>(version.id)).body.job.status, 'canceled');
  assert.equal((await cancel()).status, 400);
});

test('returns logs in pages, and over a WebSocket until the job has ended', async () => {
  const version = await pendingVersion(server);
  const own = await takeJob(server);
  await writeLogs(own.jobId, 'one', 'two', 'three');
  const logs = (await get<ProvisionerJobLog[]>(`${version.id}/logs`)).body;
  assert.deepEqual(
    logs.map(({ output }) => output),
    ['one', 'two', 'three'],
  );
  const [first, , third] = logs;
  const outputs = async (query: string) =>
    (await get<ProvisionerJobLog[]>(`${version.id}/logs${query}`)).body.map(({ output }) => output);
  assert.deepEqual(await outputs(`?after=${first!.id}`), ['two', 'three']);
  assert.deepEqual(await outputs(`?after=${first!.id}&before=${third!.id}`), ['two']);
  const url = `${server.url}/api/v2/templateversions/${version.id}/logs?follow&after=${first!.id}`;
  const headers = { Cookie: `coder_session_token=${server.adminToken}` };
  const { connection } = await dialWebSocket(url, { headers });
  const seen: string[] = [];
  let statusAtClose = '';
  const three = new Promise<void>((resolve) => {
    connection.on('text', (message) => {
      seen.push((JSON.parse(message) as ProvisionerJobLog).output);
      if (seen.length === 3) resolve();
    });
  });
  const closed = once(connection, 'close').then(async ([close]) => {
    statusAtClose = (await get<TemplateVersion>(version.id)).body.job.status;
    return (close as { code: number }).code;
  });
  await writeLogs(own.jobId, 'four');
  await three;
  await writeLogs(own.jobId, 'five');
  await finishImport(server, own);
  assert.equal(await closed, 1000);
  assert.deepEqual(seen, ['two', 'three', 'four', 'five']);
  assert.equal(statusAtClose, 'succeeded');
  await assert.rejects(dialWebSocket(url), { status: 401 });
});

test('shows the resources of a dry run to people who could create the workspace', async () => {
  const template = await createTestTemplate(server, 'tried', {
    richParameters: [{ name: 'size', type: 'number', required: true, mutable: true }],
  });
  const path = `/templateversions/${template.active_version_id}/dry-run`;
  const member = await insertPerson(server, 'trier');
  const other = await insertPerson(server, 'other');
  const stranger = await insertPerson(server, 'stranger', [], { member: false });
  const start = (body: object, token: string) => server.api<ProvisionerJob>('POST', path, { body, token });
  const good = { workspace_name: 'mine', rich_parameter_values: [{ name: 'size', value: '3' }] };
  assert.equal((await start({}, member.token)).status, 400, 'a required parameter is missing');
  assert.equal((await start({ ...good, workspace_name: 'no good' }, member.token)).status, 400);
  assert.equal((await start(good, stranger.token)).status, 404);
  const made = await start(good, member.token);
  assert.equal(made.status, 201);
  assert.equal(made.body.type, 'template_version_dry_run');
  const job = `${path}/${made.body.id}`;
  const as = (token: string, method: string, tail = '') => server.api(method, `${job}${tail}`, { token });
  assert.equal((await as(member.token, 'GET')).status, 200);
  assert.equal((await as(other.token, 'GET')).status, 404);
  assert.equal((await as(other.token, 'PATCH', '/cancel')).status, 404);
  assert.equal((await as(member.token, 'GET', '/resources')).status, 412);
  const matched = await as(member.token, 'GET', '/matched-provisioners');
  assert.equal((matched.body as MatchedProvisioners).count, 0);
  const own = await takeJob(server);
  await writeLogs(own.jobId, 'planned');
  const resources = [{ name: 'machine', type: 'machine' }];
  const done = { case: 'templateDryRun' as const, value: { resources } };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type: done }));
  const shown = await as(member.token, 'GET', '/resources');
  assert.deepEqual(
    (shown.body as WorkspaceResource[]).map(({ name }) => name),
    ['machine'],
  );
  const logs = await as(member.token, 'GET', '/logs');
  assert.deepEqual(
    (logs.body as ProvisionerJobLog[]).map(({ output }) => output),
    ['planned'],
  );
  assert.equal((await as(member.token, 'PATCH', '/cancel')).status, 400);
  const foreign = await importedVersion(server);
  assert.equal((await get(`${foreign.id}/dry-run/${made.body.id}`)).status, 404, "another version's");
  assert.equal((await get(`${template.active_version_id}/dry-run/nonsense`)).status, 400);
  const failed = await pendingVersion(server);
  await failTaken(server, await takeJob(server), 'broken');
  assert.equal((await server.api('POST', `/templateversions/${failed.id}/dry-run`, { body: {} })).status, 412);
});
