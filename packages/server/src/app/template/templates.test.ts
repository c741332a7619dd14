import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Template, TemplateVersion, Workspace } from '@ropewalk/contract';
import {
  createPerson,
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

interface Refusal {
  message: string;
  validations?: { field: string }[];
}

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

const names = (list: { name: string }[]) => list.map(({ name }) => name);
const list = async (query = '', token?: string) =>
  names((await server.api<Template[]>('GET', `/templates${query}`, token ? { token } : {})).body);

/** A workspace of a version, as after its build. */
async function workspaceOf(template: Template): Promise<void> {
  const { sql } = server.services;
  const [workspace] = await sql<{ id: string }[]>`
    INSERT INTO workspaces (owner_id, organization_id, template_id, name)
    VALUES (${template.created_by_id}, ${template.organization_id}, ${template.id}, ${`w-${template.name}`}) RETURNING id`;
  await sql`WITH job AS (
      INSERT INTO provisioner_jobs (organization_id, initiator_id, type, file_id, input, started_at, completed_at)
      SELECT organization_id, initiator_id, 'workspace_build', file_id, '{}', now(), now() FROM provisioner_jobs LIMIT 1
      RETURNING id)
    INSERT INTO workspace_builds (workspace_id, template_version_id, build_number, transition, initiator_id, job_id)
    SELECT ${workspace!.id}, ${template.active_version_id}, 1, 'start', ${template.created_by_id}, id FROM job`;
}

test('creates a template from an imported version, and finds, lists and searches it', async () => {
  const made = await createTestTemplate(server, 'alpha');
  assert.equal(made.active_user_count, 0);
  await createTestTemplate(server, 'beta-alphabet');
  const byName = await server.api<Template>('GET', '/organizations/default/templates/ALPHA');
  assert.equal(byName.body.id, made.id);
  assert.equal((await server.api<Template>('GET', `/templates/${made.id}`)).body.name, 'alpha');
  const inOrganization = await server.api<Template[]>('GET', '/organizations/default/templates');
  assert.deepEqual(names(inOrganization.body), ['alpha', 'beta-alphabet']);
  assert.deepEqual(await list(), ['alpha', 'beta-alphabet']);
  assert.deepEqual(await list('?q=exact_name:alpha'), ['alpha']);
  assert.deepEqual(await list('?q=bet'), ['beta-alphabet']);
  assert.deepEqual(await list('?q=organization:elsewhere'), []);
  assert.deepEqual(await list(`?q=${encodeURIComponent('organization:default name:beta')}`), []);
  assert.deepEqual(await list('?q=deprecated:true'), []);
  await server.api('PATCH', `/templates/${made.id}`, { body: { deprecation_message: 'use beta' } });
  assert.deepEqual(await list('?q=deprecated:true'), ['alpha']);
  assert.equal((await server.api('GET', '/templates?q=colour:red')).status, 400);
  assert.equal((await server.api('GET', '/templates/nonsense')).status, 400);
  assert.equal((await server.api('GET', `/templates/${crypto.randomUUID()}`)).status, 404);
  assert.equal((await server.api('GET', '/organizations/default/templates/absent')).status, 404);
});

test('a template can be created while its version is imported, and is used afterwards', async () => {
  const pending = await pendingVersion(server);
  const made = await server.api<Template>('POST', '/organizations/default/templates', {
    body: { name: 'early', template_version_id: pending.id },
  });
  assert.equal(made.status, 201);
  assert.equal(made.body.active_version_id, pending.id);
  const createWorkspace = () =>
    server.api<Workspace & Refusal>('POST', '/users/me/workspaces', {
      body: { name: 'early', template_id: made.body.id },
    });
  const job = await takeJob(server);
  for (const path of ['', '/daus'])
    assert.equal((await server.api('GET', `/templates/${made.body.id}${path}`)).status, 200);
  const early = await createWorkspace();
  assert.equal(early.status, 406);
  assert.match(early.body.message, /still importing/);
  await finishImport(server, job);
  assert.equal((await createWorkspace()).status, 201);
  // other tests expect that no job waits
  await failTaken(server, await takeJob(server), 'nothing to build');
});

test('rejects a template of a failed, used or unknown version, and a bad or used name', async () => {
  const create = (body: object) => server.api<Refusal>('POST', '/organizations/default/templates', { body });
  const pending = await pendingVersion(server);
  await failTaken(server, await takeJob(server), 'no such provider');
  assert.equal((await create({ name: 'failed', template_version_id: pending.id })).status, 412);
  assert.equal((await create({ name: 'none', template_version_id: crypto.randomUUID() })).status, 404);
  const taken = await createTestTemplate(server, 'taken');
  assert.equal((await create({ name: 'again', template_version_id: taken.active_version_id })).status, 400);
  const good = { template_version_id: (await importedVersion(server)).id };
  const twice = await create({ name: 'Taken', ...good });
  assert.equal(twice.status, 409);
  assert.deepEqual(
    twice.body.validations?.map(({ field }) => field),
    ['name'],
  );
  for (const wrong of [
    { name: 'no good' },
    { name: 'new' },
    { name: 'x', display_name: ' padded' },
    { name: 'x', description: 'x'.repeat(129) },
    { name: 'x', default_ttl_ms: -1 },
    { name: 'x', autostop_requirement: { days_of_week: [], weeks: 17 } },
    { name: 'x', autostart_requirement: { days_of_week: ['someday'] } },
  ]) {
    assert.equal((await create({ ...good, ...wrong })).status, 400, JSON.stringify(wrong));
  }
});

test('changes the fields of a patch, and resets the fields that a whole record of a Go client leaves out', async () => {
  const made = await createTestTemplate(server, 'patched');
  const patch = (body: object) => server.api<Template>('PATCH', `/templates/${made.id}`, { body });
  const one = await patch({ description: 'words', default_ttl_ms: 3_600_000, max_port_share_level: 'public' });
  assert.equal(one.status, 200);
  assert.deepEqual(
    [one.body.description, one.body.default_ttl_ms, one.body.max_port_share_level, one.body.allow_user_autostart],
    ['words', 3_600_000, 'public', true],
  );
  assert.deepEqual({ ...(await patch({ description: 'words' })).body }, one.body, 'nothing changed, not even the time');
  const whole = await patch({
    name: 'renamed',
    autostart_requirement: { days_of_week: ['monday'] },
    autostop_requirement: { days_of_week: ['sunday'], weeks: 2 },
    allow_user_autostop: true,
  });
  assert.equal(whole.body.name, 'renamed');
  assert.deepEqual(whole.body.autostart_requirement, { days_of_week: ['monday'] });
  assert.deepEqual(whole.body.autostop_requirement, { days_of_week: ['sunday'], weeks: 2 });
  assert.deepEqual(
    [whole.body.default_ttl_ms, whole.body.allow_user_autostart, whole.body.allow_user_autostop],
    [0, false, true],
  );
  assert.equal((await patch({ name: 'taken' })).status, 409);
  assert.equal((await patch({ name: '-' })).status, 400);
  assert.equal((await patch({ time_til_dormant_ms: -5 })).status, 400);
});

test('deletes a template only if no workspace uses it', async () => {
  const made = await createTestTemplate(server, 'leaving');
  await workspaceOf(made);
  const refused = await server.api('DELETE', `/templates/${made.id}`);
  assert.equal(refused.status, 400);
  await server.services.sql`UPDATE workspaces SET deleted = true WHERE template_id = ${made.id}`;
  assert.equal((await server.api('DELETE', `/templates/${made.id}`)).status, 200);
  assert.equal((await server.api('GET', `/templates/${made.id}`)).status, 404);
  assert.equal((await server.api('DELETE', `/templates/${made.id}`)).status, 404);
  assert.ok((await createTestTemplate(server, 'leaving')).id, 'its name is free again');

  const found = async (q: string, token?: string) => {
    const path = `/templates?q=${encodeURIComponent(q)}`;
    const { body } = await server.api<Template[]>('GET', path, token ? { token } : {});
    return body.map(({ id, deleted }) => [id, deleted]);
  };
  assert.deepEqual(await found('deleted:true leaving'), [[made.id, true]]);
  assert.ok(!(await found('deleted:false leaving')).some(([id]) => id === made.id));
  assert.equal((await server.api('GET', '/templates?q=deleted:perhaps')).status, 400);
  const member = await createPerson(server, 'looker');
  assert.deepEqual(await found('deleted:true leaving', member.token), [[made.id, true]], 'a member could use it');
  await server.services.sql`UPDATE templates SET group_acl = '{}' WHERE id = ${made.id}`;
  assert.deepEqual(await found('deleted:true leaving', member.token), [], 'nobody else finds it');
});

test('pages, finds and renames versions', async () => {
  const made = await createTestTemplate(server, 'versioned');
  const more: TemplateVersion[] = [];
  for (const name of ['v1', 'v2', 'v3']) more.push(await importedVersion(server, { template_id: made.id, name }));
  const page = async (query: string) =>
    names((await server.api<TemplateVersion[]>('GET', `/templates/${made.id}/versions${query}`)).body);
  const all = await page('');
  assert.deepEqual(all.slice(1), ['v1', 'v2', 'v3']);
  assert.deepEqual(await page('?limit=2&offset=2'), ['v2', 'v3']);
  assert.deepEqual(await page(`?after_id=${more[0]!.id}&limit=1`), ['v2']);
  assert.equal((await server.api('GET', `/templates/${made.id}/versions?after_id=${crypto.randomUUID()}`)).status, 400);
  assert.equal((await server.api('GET', `/templates/${made.id}/versions?limit=-1`)).status, 400);
  const v2 = `/organizations/default/templates/versioned/versions/v2`;
  assert.equal((await server.api<TemplateVersion>('GET', v2)).body.id, more[1]!.id);
  assert.equal((await server.api<TemplateVersion>('GET', `${v2}/previous`)).body.id, more[0]!.id);
  const first = `/organizations/default/templates/versioned/versions/${all[0]}`;
  assert.equal((await server.api('GET', `${first}/previous`)).status, 404);
  const byName = await server.api<TemplateVersion>('GET', `/templates/${made.id}/versions/V3`);
  assert.equal(byName.body.id, more[2]!.id);
  assert.equal((await server.api('GET', `/templates/${made.id}/versions/v9`)).status, 404);
  const rename = (body: object) => server.api<TemplateVersion>('PATCH', `/templateversions/${more[2]!.id}`, { body });
  const renamed = await rename({ name: '3.0', message: 'better' });
  assert.deepEqual([renamed.body.name, renamed.body.message], ['3.0', 'better']);
  assert.equal((await rename({ name: 'V2' })).status, 409);
  assert.equal((await rename({ name: 'no good' })).status, 400);
  const again = { template_id: made.id, name: 'v1', storage_method: 'file', provisioner: 'terraform' };
  const twice = await server.api('POST', '/organizations/default/templateversions', {
    body: { ...again, file_id: await uploadSource(server) },
  });
  assert.equal(twice.status, 409);
});

test('promotes only an imported, unarchived version of the same template', async () => {
  const made = await createTestTemplate(server, 'promoted');
  const other = await createTestTemplate(server, 'other');
  const promote = (id: string) => server.api('PATCH', `/templates/${made.id}/versions`, { body: { id } });
  const next = await pendingVersion(server, { template_id: made.id });
  assert.equal((await promote(next.id)).status, 400, 'pending');
  await failTaken(server, await takeJob(server), 'broken');
  assert.equal((await promote(next.id)).status, 400, 'failed');
  assert.equal((await promote(other.active_version_id)).status, 400, "another template's");
  assert.equal((await promote(crypto.randomUUID())).status, 404);
  const good = await importedVersion(server, { template_id: made.id });
  assert.equal((await server.api('POST', `/templateversions/${good.id}/archive`)).status, 200);
  assert.equal((await promote(good.id)).status, 400, 'archived');
  assert.equal((await server.api('POST', `/templateversions/${good.id}/unarchive`)).status, 200);
  assert.equal((await promote(good.id)).status, 200);
  assert.equal((await server.api<Template>('GET', `/templates/${made.id}`)).body.active_version_id, good.id);
});

test('archives no active version, no version of a workspace and no version that is being imported', async () => {
  const made = await createTestTemplate(server, 'archived');
  await workspaceOf(made);
  const used = made.active_version_id;
  const active = await importedVersion(server, { template_id: made.id, name: 'active' });
  await server.api('PATCH', `/templates/${made.id}/versions`, { body: { id: active.id } });
  const spare = await importedVersion(server, { template_id: made.id, name: 'spare' });
  const failed = await pendingVersion(server, { template_id: made.id, name: 'failed' });
  await failTaken(server, await takeJob(server), 'broken');
  const running = await pendingVersion(server, { template_id: made.id, name: 'running' });
  const own = await takeJob(server);
  for (const id of [used, active.id, running.id]) {
    assert.equal((await server.api('POST', `/templateversions/${id}/archive`)).status, 400);
  }
  const archive = async (body: object) =>
    (await server.api<{ archived_ids: string[] }>('POST', `/templates/${made.id}/versions/archive`, { body })).body;
  assert.deepEqual((await archive({})).archived_ids, [failed.id]);
  assert.deepEqual((await archive({ all: true })).archived_ids, [spare.id]);
  assert.deepEqual((await archive({ all: true })).archived_ids, []);
  const listed = await server.api<TemplateVersion[]>('GET', `/templates/${made.id}/versions`);
  assert.equal(listed.body.length, 3);
  const whole = await server.api<TemplateVersion[]>('GET', `/templates/${made.id}/versions?include_archived=true`);
  assert.equal(whole.body.length, 5);
  await failTaken(server, own, 'enough');
});

test('creates no workspace of an archived version, which an existing workspace keeps', async () => {
  const { sql } = server.services;
  const made = await createTestTemplate(server, 'kept');
  const { id } = await importedVersion(server, { template_id: made.id, name: 'old' });
  const create = (name: string) =>
    server.api<Workspace & Refusal>('POST', '/users/me/workspaces', { body: { name, template_version_id: id } });
  const first = await create('first');
  assert.equal(first.status, 201, JSON.stringify(first.body));
  await failTaken(server, await takeJob(server), 'enough');
  // a version that a workspace uses is archived only if both happen at the same moment
  await sql`UPDATE template_versions SET archived = true WHERE id = ${id}`;
  const { status, body } = await create('second');
  assert.equal(status, 400);
  assert.match(body.message, /archived/);
  assert.deepEqual(
    body.validations?.map(({ field }) => field),
    ['template_version_id'],
  );
  const again = await server.api('POST', `/workspaces/${first.body.id}/builds`, { body: { transition: 'start' } });
  assert.equal(again.status, 201, JSON.stringify(again.body));
  await failTaken(server, await takeJob(server), 'enough');
  assert.equal((await server.api('POST', `/templateversions/${id}/unarchive`)).status, 200);
  assert.equal((await create('second')).status, 201);
  await failTaken(server, await takeJob(server), 'enough');
});

test('lets members see and use templates for everyone, and change none', async () => {
  const open = await createTestTemplate(server, 'open');
  const closed = await createTestTemplate(server, 'closed');
  await server.api('PATCH', `/templates/${closed.id}`, { body: { disable_everyone_group_access: true } });
  const member = await insertPerson(server, 'worker');
  const author = await insertPerson(server, 'writer', ['template-admin']);
  const stranger = await insertPerson(server, 'stranger', [], { member: false });
  assert.ok((await list('', member.token)).includes('open'));
  assert.ok(!(await list('', member.token)).includes('closed'));
  assert.ok((await list('', author.token)).includes('closed'));
  assert.deepEqual(await list('', stranger.token), []);
  const as = (token: string | null, method: string, path: string, body?: object) =>
    server.api(method, path, { token, ...(body ? { body } : {}) }).then(({ status }) => status);
  assert.equal(await as(member.token, 'GET', `/templates/${open.id}`), 200);
  assert.equal(await as(member.token, 'GET', `/templates/${closed.id}`), 404);
  assert.equal(await as(stranger.token, 'GET', `/templates/${open.id}`), 404);
  assert.equal(await as(stranger.token, 'GET', '/organizations/default/templates'), 404);
  assert.equal(await as(null, 'GET', '/templates'), 401);
  assert.equal(await as(member.token, 'PATCH', `/templates/${open.id}`, { description: 'mine' }), 403);
  assert.equal(await as(member.token, 'DELETE', `/templates/${open.id}`), 403);
  assert.equal(await as(member.token, 'PATCH', `/templates/${open.id}/versions`, { id: open.active_version_id }), 403);
  assert.equal(await as(member.token, 'POST', `/templates/${open.id}/versions/archive`, {}), 403);
  assert.equal(await as(member.token, 'POST', `/templateversions/${open.active_version_id}/archive`), 403);
  assert.equal(await as(member.token, 'PATCH', `/templateversions/${open.active_version_id}`, { name: 'mine' }), 403);
  assert.equal(await as(member.token, 'GET', `/templates/${open.id}/daus`), 403);
  assert.equal(await as(author.token, 'GET', `/templates/${open.id}/daus`), 200);
});

test('counts the days on which people used a template in the requested time zone', async () => {
  const made = await createTestTemplate(server, 'counted');
  await workspaceOf(made);
  const { sql } = server.services;
  await sql`INSERT INTO workspace_usage (workspace_id, start_time, ssh)
    SELECT id, date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - interval '1 hour', 1
    FROM workspaces WHERE template_id = ${made.id}`;
  const daus = async (offset: number) =>
    (
      await server.api<{ entries: { date: string; amount: number }[] }>(
        'GET',
        `/templates/${made.id}/daus?tz_offset=${offset}`,
      )
    ).body.entries;
  const day = (ms: number) => new Date(ms).toISOString().slice(0, 10);
  assert.deepEqual(await daus(0), [{ date: day(Date.now() - 86_400_000), amount: 1 }]);
  assert.deepEqual(await daus(2), [{ date: day(Date.now()), amount: 1 }]);
  assert.equal((await server.api('GET', `/templates/${made.id}/daus?tz_offset=99`)).status, 400);
});
