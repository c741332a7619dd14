import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Organization, Template, Workspace, WorkspaceBuild } from '@ropewalk/contract';
import { createTestTemplate, failTaken, startTestServer, type TestServer, takeJob } from '@ropewalk/testkit';

let server: TestServer;
let template: Template;
before(async () => {
  server = await startTestServer();
  template = await createTestTemplate(server, 'plain');
});
after(() => server.stop());

interface Refusal {
  message: string;
  detail?: string;
  validations?: { field: string; detail: string }[];
}
const make = (name: string, organization = 'default') =>
  server.api<Workspace & Refusal>('POST', `/organizations/${organization}/members/me/workspaces`, {
    body: { name, template_id: template.id },
  });
const ended = async () => failTaken(server, await takeJob(server), 'not run in this test');

test('creates a workspace in the organization of its path, or not at all', async () => {
  const made = await make('here');
  assert.equal(made.status, 201);
  await ended();
  assert.equal((await make('nowhere', 'nosuch')).status, 404);
  assert.equal((await make('nowhere', crypto.randomUUID())).status, 404);
  const other = await server.api<Organization>('POST', '/organizations', { body: { name: 'elsewhere' } });
  assert.equal(other.status, 201);
  for (const name of ['elsewhere', other.body.id]) {
    const refused = await make('nowhere', name);
    assert.deepEqual([refused.status, refused.body.validations?.[0]?.field], [400, 'template_id']);
  }
  const byVersion = await server.api<Refusal>('POST', '/organizations/elsewhere/members/me/workspaces', {
    body: { name: 'nowhere', template_version_id: template.active_version_id },
  });
  assert.deepEqual([byVersion.status, byVersion.body.validations?.[0]?.field], [400, 'template_version_id']);
  assert.equal((await make('again', template.organization_id)).status, 201);
  await ended();
});

test('counts the creation of a workspace as its use', async () => {
  const begun = Date.now();
  const { body } = await make('fresh');
  await ended();
  const used = Date.parse(body.last_used_at);
  assert.ok(used >= begun - 1_000 && used <= Date.now() + 1_000, body.last_used_at);
  const found = async (q: string) =>
    (await server.api<{ workspaces: Workspace[] }>('GET', `/workspaces?q=${encodeURIComponent(q)}`)).body.workspaces
      .map(({ name }) => name)
      .includes('fresh');
  const around = (ms: number) => new Date(used + ms).toISOString();
  assert.equal(await found(`last_used_after:"${around(-60_000)}"`), true);
  assert.equal(await found(`last_used_after:"${around(60_000)}"`), false);
  assert.equal(await found(`last_used_before:"${around(60_000)}"`), true);
  assert.equal(await found(`last_used_before:"${around(-60_000)}"`), false);
});

test('rejects a build that asks for a dry run', async () => {
  const { body: workspace } = await make('tried');
  await ended();
  const tried = await server.api<Refusal>('POST', `/workspaces/${workspace.id}/builds`, {
    body: { transition: 'start', dry_run: true },
  });
  assert.deepEqual([tried.status, tried.body.validations?.[0]?.field], [400, 'dry_run']);
  assert.match(tried.body.validations![0]!.detail, /\/templateversions\/\{templateversion\}\/dry-run/);
  const builds = await server.api<WorkspaceBuild[]>('GET', `/workspaces/${workspace.id}/builds`);
  assert.equal(builds.body.length, 1, 'nothing was begun');
  const real = await server.api('POST', `/workspaces/${workspace.id}/builds`, {
    body: { transition: 'start', dry_run: false },
  });
  assert.equal(real.status, 201);
  await ended();
});

test('returns the builds after after_id', async () => {
  const { body: workspace } = await make('many');
  await ended();
  for (let i = 0; i < 4; i++) {
    const next = await server.api('POST', `/workspaces/${workspace.id}/builds`, { body: { transition: 'start' } });
    assert.equal(next.status, 201);
    await ended();
  }
  const list = async (query = '') =>
    (await server.api<WorkspaceBuild[]>('GET', `/workspaces/${workspace.id}/builds?${query}`)).body;
  const all = await list();
  assert.deepEqual(
    all.map(({ build_number }) => build_number),
    [5, 4, 3, 2, 1],
  );
  const numbers = async (query: string) => (await list(query)).map(({ build_number }) => build_number);
  assert.deepEqual(await numbers(`after_id=${all[3]!.id}`), [5, 4, 3]);
  assert.deepEqual(await numbers(`after_id=${all[3]!.id}&limit=2`), [5, 4]);
  assert.deepEqual(await numbers(`after_id=${all[3]!.id}&limit=2&offset=1`), [4, 3]);
  assert.deepEqual(await numbers(`after_id=${all[0]!.id}`), []);
  // the API shows times in milliseconds
  const third = new Date(Date.parse(all[2]!.created_at) + 1).toISOString();
  assert.deepEqual(await numbers(`after_id=${all[4]!.id}&since=${third}`), [5, 4]);
  // upstream's clients send the nil id for "none"
  assert.deepEqual(await numbers('after_id=00000000-0000-0000-0000-000000000000&limit=1'), [5]);
  const { body: other } = await make('other');
  await ended();
  for (const id of ['x', crypto.randomUUID(), other.latest_build.id]) {
    const refused = await server.api<Refusal>('GET', `/workspaces/${workspace.id}/builds?after_id=${id}`);
    assert.deepEqual([refused.status, refused.body.validations?.[0]?.field], [400, 'after_id'], id);
  }
});
