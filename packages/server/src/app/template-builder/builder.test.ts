import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import type {
  AuditLogResponse,
  Response,
  Template,
  TemplateBuilderBasesResponse,
  TemplateBuilderModulesResponse,
} from '@ropewalk/contract';
import { ensureDirectorySync } from '@ropewalk/kit/directory';
import {
  createTestTemplate,
  eventually,
  failTaken,
  finishImport,
  insertPerson,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { fileData } from '../../db/queries/files.ts';
import { jobById } from '../../db/queries/jobs.ts';
import { readTar } from '../evaluate/archive.ts';

const root = mkdtempSync(join(tmpdir(), 'builder-'));
let server: TestServer;
let organization = '';
let member = '';
before(async () => {
  const files = {
    'bases/own/README.md': '---\ndisplay_name: Own machine\nicon: /icon/git.svg\n---\n\n# Own\n\nNeeds nothing.\n',
    'bases/own/main.tf': `variable "size" {
  type = number
}
variable "password" {
  type      = string
  sensitive = true
  default   = "x"
}
resource "coder_agent" "dev" {
  os   = "windows"
  arch = "amd64"
}
`,
    'bases/bad/main.tf': 'x',
  };
  for (const [path, text] of Object.entries(files)) {
    ensureDirectorySync(dirname(join(root, path)));
    writeFileSync(join(root, path), text);
  }
  server = await startTestServer({ env: { CODER_TEMPLATE_BUILDER_SOURCE: root } });
  organization = (await server.api<{ id: string }>('GET', '/organizations/default')).body.id;
  member = (await insertPerson(server, 'ann')).token;
});
after(async () => {
  await server.stop();
  rmSync(root, { recursive: true });
});

const post = (path: string, body: object, token?: string) =>
  server.api<Response & { template: Template }>('POST', `/templatebuilder${path}`, {
    body,
    ...(token ? { token } : {}),
  });
const CHOICE = {
  base_template_id: 'own',
  base_variable_values: { size: '3', password: 'canary' },
  modules: [{ id: 'port-app', variables: { port: '8080' } }],
};
/** Takes the import that a request waits for. */
async function takeImport() {
  const { sql } = server.services;
  const waits = () => sql`SELECT 1 FROM provisioner_jobs WHERE started_at IS NULL`;
  await eventually('the import', async () => (await waits()).length > 0);
  return takeJob(server);
}
const request = (name: string) => ({ ...CHOICE, organization_id: organization, name });

test('lists bases by name with the problems of the source, and modules of a system', async () => {
  const { body } = await server.api<TemplateBuilderBasesResponse>('GET', '/templatebuilder/bases');
  const names = body.bases.map(({ name }) => name);
  assert.deepEqual(names, [...names].sort());
  const own = body.bases.find(({ id }) => id === 'own')!;
  assert.deepEqual(own, {
    id: 'own',
    name: 'Own machine',
    description: '',
    icon: '/icon/git.svg',
    os: 'windows',
    prerequisites: 'Needs nothing.',
    variables: [
      { name: 'size', type: 'number', description: '', required: true, sensitive: false },
      { name: 'password', type: 'string', description: '', default: 'x', required: false, sensitive: true },
    ],
  });
  assert.deepEqual(body.problems, [`${root}: bases/bad/README.md is missing. Its front matter describes the folder.`]);
  const modules = async (query = '') =>
    (await server.api<TemplateBuilderModulesResponse>('GET', `/templatebuilder/modules${query}`)).body.modules;
  const all = await modules();
  assert.ok(all.some(({ id }) => id === 'dotfiles') && all.some(({ id }) => id === 'vscode-web'));
  const fitting = await modules('?base=own');
  assert.ok(fitting.some(({ id }) => id === 'vscode-web') && !fitting.some(({ id }) => id === 'dotfiles'));
  const unknown = await server.api<Response>('GET', '/templatebuilder/modules?base=constructor');
  assert.deepEqual([unknown.status, unknown.body.message], [400, 'Unknown base template.']);
});

test('returns the composed source as a tar', async () => {
  const answer = await fetch(`${server.url}/api/v2/templatebuilder/compose`, {
    method: 'POST',
    headers: { 'Coder-Session-Token': server.adminToken, 'Content-Type': 'application/json' },
    body: JSON.stringify(CHOICE),
  });
  assert.deepEqual([answer.status, answer.headers.get('content-type')], [200, 'application/x-tar']);
  const entries = await readTar(new Uint8Array(await answer.arrayBuffer()));
  assert.deepEqual(
    entries.map(({ path }) => path),
    ['README.md', 'main.tf', 'modules.tf', 'modules/port-app/main.tf'],
  );
  assert.ok(!entries.some(({ data }) => Buffer.from(data).includes('canary')));
  const missing = await post('/compose', { base_template_id: '', modules: [] });
  assert.deepEqual([missing.status, missing.body.message], [400, 'Missing base_template_id.']);
  const wrong = await post('/compose', { base_template_id: 'own', modules: [] });
  assert.deepEqual(
    [wrong.status, wrong.body.message, wrong.body.detail],
    [400, 'Failed to compose template.', 'Base "own", variable "size": a value is required.'],
  );
});

test('creates a template from the composed source, with entries in the audit log', async () => {
  const answering = post('/compose/template', {
    ...request('composed'),
    display_name: 'Composed',
    icon: '/icon/git.svg',
  });
  const own = await takeImport();
  const { input, file_id } = (await jobById(server.services.sql, own.jobId))!;
  assert.deepEqual(input.user_variable_values, [{ name: 'password', value: 'canary' }]);
  const entries = await readTar((await fileData(server.services.sql, file_id))!);
  const main = entries.find(({ path }) => path === 'main.tf')!;
  assert.match(Buffer.from(main.data).toString(), /variable "size" \{\n {2}type = number\n {2}default = 3\n\}/);
  await finishImport(server, own);
  const { status, body } = await answering;
  assert.equal(status, 201, JSON.stringify(body));
  const { name, display_name, icon, organization_id, allow_user_cancel_workspace_jobs } = body.template;
  assert.deepEqual(
    [name, display_name, icon, organization_id, allow_user_cancel_workspace_jobs],
    ['composed', 'Composed', '/icon/git.svg', organization, false],
  );
  const { body: log } = await server.api<AuditLogResponse>('GET', '/audit?limit=10&q=action:create');
  const kinds = log.audit_logs.map(({ resource_type: type }) => type);
  assert.ok(kinds.includes('template') && kinds.includes('template_version'), kinds.join());
});

test('creates nothing from an import that fails, from a taken name or from a wrong choice', async () => {
  const answering = post('/compose/template', request('failed'));
  const own = await takeImport();
  await failTaken(server, own, 'no such thing');
  const failed = await answering;
  assert.deepEqual([failed.status, failed.body.message], [400, 'Template import failed.']);
  assert.match(failed.body.detail!, /no such thing/);
  assert.equal((await server.api('GET', '/organizations/default/templates/failed')).status, 404);
  await createTestTemplate(server, 'taken');
  const taken = await post('/compose/template', request('taken'));
  assert.deepEqual(
    [taken.status, taken.body.message],
    [409, 'A template with this name already exists in the organization.'],
  );
  for (const [change, status] of [
    [{ modules: [{ id: 'dotfiles' }] }, 400],
    [{ name: 'Bad Name' }, 400],
    [{ description: 'x'.repeat(129) }, 400],
    [{ organization_id: crypto.randomUUID() }, 404],
    [{ max_ttl_ms: 5 }, 400],
  ] as const)
    assert.equal((await post('/compose/template', { ...request('none'), ...change })).status, status);
});

test('is absent for people who may not create templates, and where it is disabled', async () => {
  const session = { session_id: crypto.randomUUID(), event_type: 'wizard_entry' };
  assert.equal((await post('/sessions', session)).status, 204);
  assert.equal((await post('/sessions', { ...session, event_type: 'other' })).status, 400);
  assert.equal((await post('/sessions', { event_type: 'wizard_entry' })).status, 400);
  const statuses = async (on: TestServer, token: string | null) =>
    Promise.all(
      (
        [
          ['GET', '/bases'],
          ['GET', '/modules'],
          ['POST', '/compose', CHOICE],
          ['POST', '/compose/template', request('x')],
          ['POST', '/sessions', session],
        ] as const
      ).map(async ([method, path, body]) => {
        const { status } = await on.api(method, `/templatebuilder${path}`, { token, ...(body ? { body } : {}) });
        return status;
      }),
    );
  assert.deepEqual(await statuses(server, member), [404, 404, 404, 404, 404]);
  assert.deepEqual(await statuses(server, null), [401, 401, 401, 401, 401]);
  const off = await startTestServer({ env: { CODER_DISABLE_TEMPLATE_BUILDER: 'true' } });
  try {
    assert.deepEqual(await statuses(off, off.adminToken), [404, 404, 404, 404, 404]);
  } finally {
    await off.stop();
  }
});
