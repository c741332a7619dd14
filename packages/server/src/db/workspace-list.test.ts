import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Template, User, Workspace, WorkspacesResponse } from '@ropewalk/contract';
import { createPerson, createTestTemplate, fillWorkspaces, startTestServer, type TestServer } from '@ropewalk/testkit';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

/** A workspace whose first build has succeeded. */
async function createWorkspace(template: Template, name: string, token: string): Promise<Workspace> {
  const made = await server.api<Workspace>('POST', '/users/me/workspaces', {
    token,
    body: { name, template_id: template.id },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const job = made.body.latest_build.job.id;
  await server.services.sql`UPDATE provisioner_jobs SET started_at = now(), completed_at = now() WHERE id = ${job}`;
  return made.body;
}

/** Workspaces whose list columns differ from their builds, jobs and owners. */
async function stale(): Promise<object[]> {
  const rows = await server.services.sql<object[]>`
    SELECT w.name, w.status, w.owner_sort, w.latest_build_id, b.id, b.transition, j.job_status, u.username
    FROM workspaces w JOIN users u ON u.id = w.owner_id
    JOIN LATERAL (SELECT * FROM workspace_builds WHERE workspace_id = w.id ORDER BY build_number DESC LIMIT 1) b ON true
    JOIN provisioner_jobs j ON j.id = b.job_id
    WHERE w.latest_build_id IS DISTINCT FROM b.id OR w.owner_sort <> lower(u.username)
      OR w.status <> workspace_status(b.transition, j.job_status)`;
  return [...rows];
}

test('keeps the latest build, its status and the owner of each workspace up to date after every change', async () => {
  const { sql } = server.services;
  const template = await createTestTemplate(server, 'base', {});
  const person = await createPerson(server, 'Zoe');
  const workspace = await createWorkspace(template, 'dev', person.token);
  assert.deepEqual(await stale(), []);
  const jobs = () => sql<
    { id: string }[]
  >`SELECT j.id FROM provisioner_jobs j JOIN workspace_builds b ON b.job_id = j.id
    WHERE b.workspace_id = ${workspace.id} ORDER BY b.build_number DESC`;
  const seen = new Set<string>();
  for (const transition of ['stop', 'start', 'stop']) {
    const made = await server.api('POST', `/workspaces/${workspace.id}/builds`, { body: { transition } });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    const id = (await jobs())[0]!.id;
    for (const change of [
      sql`started_at = now()`,
      sql`canceled_at = now()`,
      sql`canceled_at = NULL`,
      sql`completed_at = now(), error = 'it broke'`,
      sql`error = NULL`,
    ]) {
      await sql`UPDATE provisioner_jobs SET ${change} WHERE id = ${id}`;
      assert.deepEqual(await stale(), []);
      const [row] = await sql<{ status: string }[]>`SELECT status FROM workspaces WHERE id = ${workspace.id}`;
      seen.add(row!.status);
    }
  }
  assert.deepEqual([...seen].sort(), ['canceling', 'failed', 'running', 'starting', 'stopped', 'stopping']);
  // an earlier build's job has no effect
  const [, earlier] = await jobs();
  await sql`UPDATE provisioner_jobs SET error = 'late' WHERE id = ${earlier!.id}`;
  assert.deepEqual(await stale(), []);
  await sql`UPDATE users SET username = 'Anna' WHERE id = ${person.id}`;
  assert.deepEqual(await stale(), []);
});

test('returns pages in list order, favorites first, without gaps or repetitions', async () => {
  const template = await createTestTemplate(server, 'many', {});
  const member = await createPerson(server, 'mia');
  for (let i = 0; i < 12; i++) {
    await createWorkspace(template, `w-${i}`, member.token);
  }
  const all = async (query: string) =>
    (await server.api<WorkspacesResponse>('GET', `/workspaces?q=template:many&${query}`, { token: member.token })).body;
  const { workspaces } = await all('limit=50');
  for (const at of [7, 3]) {
    const put = await server.api('PUT', `/workspaces/${workspaces[at]!.id}/favorite`, { token: member.token });
    assert.equal(put.status, 204);
  }
  const whole = await all('limit=50');
  assert.equal(whole.count, 12);
  assert.deepEqual(
    whole.workspaces
      .slice(0, 2)
      .map(({ name }) => name)
      .sort(),
    [workspaces[3]!.name, workspaces[7]!.name].sort(),
  );
  assert.deepEqual(
    whole.workspaces.map(({ favorite }) => favorite),
    whole.workspaces.map((_, i) => i < 2),
  );
  const paged: string[] = [];
  for (let offset = 0; offset < 15; offset += 5) {
    const page = await all(`limit=5&offset=${offset}`);
    assert.equal(page.count, 12);
    paged.push(...page.workspaces.map(({ id }) => id));
  }
  assert.deepEqual(
    paged,
    whole.workspaces.map(({ id }) => id),
  );
  assert.equal((await all('limit=5&offset=100')).count, 12);
});

test('returns the same pages from the end of a long list as from its beginning', async () => {
  const { sql } = server.services;
  const template = await createTestTemplate(server, 'long', {});
  await fillWorkspaces(sql, template.id, 1_300);
  const rows = await sql<{ id: string }[]>`SELECT id FROM workspaces WHERE NOT deleted
    ORDER BY running DESC, owner_sort, name_sort`;
  const ids = rows.map(({ id }) => id);
  const favorite = ids[3]!;
  const { body: admin } = await server.api<User>('GET', '/users/me');
  await sql`INSERT INTO workspace_favorites (user_id, workspace_id) VALUES (${admin.id}, ${favorite})`;
  const expected = [favorite, ...ids.filter((id) => id !== favorite)];
  const end = ids.length;
  for (const offset of [999, 1_000, end - 60, end - 25, end - 10, end - 1, end]) {
    const page = await server.api<WorkspacesResponse>('GET', `/workspaces?limit=25&offset=${offset}`);
    assert.equal(page.body.count, end);
    const found = page.body.workspaces.map(({ id }) => id);
    assert.deepEqual(found, expected.slice(offset, offset + 25), `offset ${offset}`);
  }
});
