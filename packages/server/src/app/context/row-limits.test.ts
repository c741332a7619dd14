import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { Group, Organization, Response, Template, TemplateVersion, Workspace } from '@ropewalk/contract';
import { createTestTemplate, insertPerson, startTestServer, type TestServer, takeJob, tarOf } from '@ropewalk/testkit';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { failed, statuses, times } from '../../http/testing/limits.ts';
import { completeJob } from '../job/complete.ts';

// Limits of the rows of an organization, a template, a workspace and the deployment, and of uploads. limits.test.ts tests
// those of tokens, workspaces and jobs.

const MAX = 3;
let server: TestServer;
let template: Template;
before(async () => {
  server = await startTestServer({
    env: {
      CODER_MAX_GROUPS_PER_ORGANIZATION: String(MAX),
      CODER_MAX_TEMPLATES_PER_ORGANIZATION: String(MAX),
      CODER_MAX_VERSIONS_PER_TEMPLATE: String(MAX),
    },
  });
  template = await createTestTemplate(server, 'first');
});
after(() => server.stop());

const message = ({ body }: { body: unknown }) => (body as Response).message;

test('a workspace shares at most a number of ports, and changes those that it shares', async () => {
  const { sql } = server.services;
  const { body: workspace } = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name: 'sharing', template_id: template.id },
  });
  const { id } = workspace;
  const agents = [{ id: crypto.randomUUID(), name: 'main', operatingSystem: 'linux', architecture: 'amd64' }];
  const value = { resources: [{ name: 'machine', type: 'vm', agents }] };
  const own = await takeJob(server);
  await completeJob(
    server.services,
    own,
    create(CompletedJobSchema, { jobId: own.jobId, type: { case: 'workspaceBuild', value } }),
  );
  await sql`INSERT INTO workspace_agent_port_shares (workspace_id, agent_name, port, share_level, protocol)
    SELECT ${id}, 'main', n, 'owner', 'http' FROM generate_series(2001, 2099) n`;
  const share = (port: number) =>
    server.api('POST', `/workspaces/${id}/port-share`, {
      body: { agent_name: 'main', port, share_level: 'owner', protocol: 'https' },
    });
  const answers = await times(3, (n) => share(3000 + n));
  assert.deepEqual(statuses(answers), [200, 409, 409]);
  assert.match(failed(answers)[0]!.message, /^This workspace already has 100 shared ports\. Stop sharing one/);
  assert.equal((await share(2001)).status, 200);
});

test('an organization has at most a number of groups, and may replace one', async () => {
  const add = (name: string) => server.api<Group>('POST', '/organizations/default/groups', { body: { name } });
  const answers = await times(MAX + 2, (n) => add(`g${n}`));
  assert.deepEqual(statuses(answers), [201, 201, 201, 409, 409]);
  assert.deepEqual(failed(answers)[0], {
    message: 'This organization already has 3 groups. Delete one and try again.',
    detail: 'At most 3 are allowed. An administrator sets the limit with --max-groups-per-organization.',
  });
  const made = answers.find(({ status }) => status === 201)!;
  await server.api('DELETE', `/groups/${made.body.id}`);
  assert.equal((await add('later')).status, 201);
});

test('an organization has at most a number of custom roles', async () => {
  const { body: org } = await server.api<Organization>('POST', '/organizations', { body: { name: 'roles' } });
  await server.services.sql`INSERT INTO custom_roles (organization_id, name, display_name, permissions)
    SELECT ${org.id}, 'r' || n, '', '{}' FROM generate_series(1, 199) n`;
  const add = (name: string) =>
    server.api('POST', `/organizations/${org.id}/members/roles`, { body: { name, organization_permissions: [] } });
  const answers = await times(3, (n) => add(`late${n}`));
  assert.deepEqual(statuses(answers), [200, 409, 409]);
  assert.deepEqual(failed(answers)[0], {
    message: 'This organization already has 200 custom roles. Delete one and try again.',
    detail: 'At most 200 are allowed.',
  });
  // a role that exists can change
  const change = { body: { name: 'r1', organization_permissions: [] } };
  assert.equal((await server.api('PUT', `/organizations/${org.id}/members/roles`, change)).status, 200);
});

test('an organization has at most a number of templates', async () => {
  await createTestTemplate(server, 'second');
  await createTestTemplate(server, 'third');
  await assert.rejects(createTestTemplate(server, 'fourth'), /This organization already has 3 templates\./);
  // one that was deleted does not count
  await server.services.sql`UPDATE templates SET deleted = true WHERE name = 'third'`;
  await createTestTemplate(server, 'fifth');
});

test('a template has at most a number of versions, and a person of versions without a template', async () => {
  const { body: version } = await server.api<TemplateVersion>('GET', `/templateversions/${template.active_version_id}`);
  const push = (token?: string, templateId?: string) =>
    server.api('POST', '/organizations/default/templateversions', {
      ...(token ? { token } : {}),
      body: {
        example_id: 'quickstart',
        provisioner: 'terraform',
        storage_method: 'file',
        ...(templateId ? { template_id: templateId } : {}),
      },
    });
  const answers = await times(MAX + 1, () => push(undefined, template.id));
  assert.deepEqual(statuses(answers), [201, 201, 409, 409]);
  assert.equal(failed(answers)[0]!.message, 'This template already has 3 versions. Create another template.');
  // archived ones stay, and count
  await server.services.sql`UPDATE template_versions SET archived = true
    WHERE template_id = ${template.id} AND id <> ${version.id}`;
  assert.equal((await push(undefined, template.id)).status, 409);

  const { id, token } = await insertPerson(server, 'author', ['template-admin']);
  await server.services.sql`WITH jobs AS (
      INSERT INTO provisioner_jobs (organization_id, initiator_id, type, file_id, input, started_at, completed_at)
      SELECT j.organization_id, ${id}::uuid, j.type, j.file_id, j.input, now(), now()
      FROM provisioner_jobs j, generate_series(1, 1000) WHERE j.id = ${version.job.id} RETURNING *)
    INSERT INTO template_versions (id, organization_id, name, message, job_id, created_by, created_at)
    SELECT gen_random_uuid(), organization_id, 'v' || row_number() OVER (), '', id, ${id}, now() - interval '29 days'
    FROM jobs`;
  const refused = await push(token);
  assert.equal(refused.status, 409);
  assert.match(
    message(refused),
    /^Your account already has 1000 template versions without a template in the last 30 days/,
  );
  await server.services.sql`UPDATE template_versions SET created_at = now() - interval '31 days'
    WHERE created_by = ${id} AND name = 'v1'`;
  assert.equal((await push(token)).status, 201);
});

test('a deployment has at most a number of organizations', async () => {
  await server.services.sql`INSERT INTO organizations (name, display_name)
    SELECT 'many' || n, '' FROM generate_series(1, 1000 - (SELECT count(*) FROM organizations WHERE NOT deleted)) n`;
  const refused = await server.api('POST', '/organizations', { body: { name: 'beyond' } });
  assert.deepEqual(
    [refused.status, message(refused)],
    [409, 'This deployment already has 1000 organizations. Delete one and try again.'],
  );
  await server.services.sql`DELETE FROM organizations WHERE name LIKE 'many%'`;
});

test('a person has a number of uploads that nothing uses, and a number of bytes in them', async () => {
  const { id, token } = await insertPerson(server, 'uploader');
  const { sql } = server.services;
  const upload = async (content: string) =>
    server.api('POST', '/files', {
      token,
      raw: { type: 'application/x-tar', data: await tarOf({ 'main.tf': `# ${content}` }) },
    });
  assert.equal((await upload('known')).status, 201);
  await sql`INSERT INTO files (hash, mimetype, data, created_by)
    SELECT 'upload ' || n, 'application/x-tar', 'x', ${id}::uuid FROM generate_series(1, 198) n`;
  const answers = await times(3, (n) => upload(`new ${n}`));
  assert.deepEqual(statuses(answers), [201, 409, 409]);
  assert.match(failed(answers)[0]!.message, /^You have too many uploads that no template version uses\./);
  // the same content again needs no room
  assert.equal((await upload('known')).status, 200);
  // what a template version uses does not count
  await sql`UPDATE provisioner_jobs SET file_id = (SELECT id FROM files WHERE hash = 'upload 1' AND created_by = ${id})
    WHERE id = (SELECT job_id FROM template_versions WHERE id = ${template.active_version_id})`;
  assert.equal((await upload('used')).status, 201);
  await sql`DELETE FROM files WHERE created_by = ${id} AND hash LIKE 'upload %' AND hash <> 'upload 1'`;
  // copies of a stored value are not compressed again
  const mebibytes = (hash: string, size: number, copies: number) => sql`WITH one AS (
      SELECT convert_to(repeat('x', ${size} * 1024 * 1024), 'UTF8') AS data)
    INSERT INTO files (hash, mimetype, data, created_by)
    SELECT ${hash} || n, 'application/x-tar', data, ${id}::uuid FROM one, generate_series(1, ${copies}) n`;
  await mebibytes('big ', 100, 1);
  await sql`INSERT INTO files (hash, mimetype, data, created_by)
    SELECT hash || n, mimetype, data, created_by FROM files, generate_series(2, 10) n WHERE hash = 'big 1'`;
  assert.equal((await upload('fits')).status, 201);
  await mebibytes('rest ', 24, 1);
  assert.equal((await upload('beyond')).status, 409);
});
