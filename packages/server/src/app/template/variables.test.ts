import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { Template, TemplateVersion, TemplateVersionVariable } from '@ropewalk/contract';
import { loadModule } from '@ropewalk/hcl';
import { finishImport, pendingVersion, startTestServer, type TestServer, takeJob } from '@ropewalk/testkit';
import { UpdateJobRequestSchema } from '@ropewalk/wire/proto/provisionerd';
import { createLogKeeper } from '../job/log-keeper.ts';
import { acquiredJobMessage } from '../job/message.ts';
import { updateJob } from '../job/update.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

interface Imported {
  id: string;
  /** What the daemon passes to Terraform. */
  passed: Record<string, string>;
}

const byName = (values: readonly { name: string; value: string }[]) =>
  Object.fromEntries(values.map(({ name, value }) => [name, value]));

/** Imports a version as a daemon does: with the values that its job brings. */
async function push(source: string, variables: Record<string, string> = {}, templateId?: string): Promise<Imported> {
  const { id } = await pendingVersion(server, {
    user_variable_values: Object.entries(variables).map(([name, value]) => ({ name, value })),
    ...(templateId ? { template_id: templateId } : {}),
  });
  const own = await takeJob(server);
  const { type } = await acquiredJobMessage(server.services, own.job);
  assert.ok(type.case === 'templateImport');
  const request = create(UpdateJobRequestSchema, {
    jobId: own.jobId,
    templateVariables: loadModule({ 'main.tf': source }).variables.map(({ default: defaultValue, ...rest }) => ({
      ...rest,
      defaultValue,
    })),
    userVariableValues: type.value.userVariableValues,
  });
  const { variableValues } = await updateJob(server.services, own, request, createLogKeeper());
  await finishImport(server, own);
  if (templateId) {
    const body = { id };
    assert.equal((await server.api('PATCH', `/templates/${templateId}/versions`, { body })).status, 200);
  }
  return { id, passed: byName(variableValues) };
}

async function templateOf(name: string, version: Imported): Promise<string> {
  const { status, body } = await server.api<Template>('POST', '/organizations/default/templates', {
    body: { name, template_version_id: version.id },
  });
  assert.equal(status, 201, JSON.stringify(body));
  return body.id;
}

/** The variables that the daemon gets for a dry run, as for a build. */
async function builtWith(versionId: string): Promise<Record<string, string>> {
  const { status, body } = await server.api<TemplateVersion>('POST', `/templateversions/${versionId}/dry-run`, {
    body: { workspace_name: 'dry', rich_parameter_values: [] },
  });
  assert.equal(status, 201, JSON.stringify(body));
  const { type } = await acquiredJobMessage(server.services, (await takeJob(server)).job);
  assert.ok(type.case === 'templateDryRun');
  return byName(type.value.variableValues);
}

const shown = async (versionId: string) =>
  (await server.api<TemplateVersionVariable[]>('GET', `/templateversions/${versionId}/variables`)).body;

test('a changed default takes effect, and a value that somebody set stays', async () => {
  const source = (text: string) => `variable "a" { default = "${text}" }\nvariable "b" { default = "${text}" }`;
  const id = await templateOf('defaults', await push(source('old'), { b: 'mine' }));
  const second = await push(source('new'), {}, id);
  assert.deepEqual(byName(await shown(second.id)), { a: 'new', b: 'mine' });
  assert.deepEqual(second.passed, { b: 'mine' }, 'Terraform reads the default from the files');
  assert.deepEqual(await builtWith(second.id), { b: 'mine' });
});

test('a default may change its type', async () => {
  const id = await templateOf('types', await push('variable "n" { default = "many" }'));
  const second = await push('variable "n" {\n type = number\n default = 3\n}', {}, id);
  assert.deepEqual(second.passed, {});
  assert.deepEqual(byName(await shown(second.id)), { n: '3' });
});

test('a form that repeats the default does not fix it for later versions', async () => {
  const id = await templateOf('forms', await push('variable "a" { default = "old" }', { a: 'old' }));
  const second = await push('variable "a" { default = "new" }', {}, id);
  assert.deepEqual(byName(await shown(second.id)), { a: 'new' });
});

test('a given value reaches Terraform even if it equals the default: a file of the template may set another', async () => {
  const version = await push('variable "a" { default = "x" }', { a: 'x' });
  assert.deepEqual(version.passed, { a: 'x' });
  assert.deepEqual(await builtWith(version.id), { a: 'x' });
});

test("lists variables in the author's order, and redacts sensitive ones", async () => {
  const version = await push(
    'variable "z" { default = "1" }\nvariable "a" {\n default = "hunter"\n sensitive = true\n}\nvariable "m" {}',
    { m: 'given', a: 'hunter2' },
  );
  assert.deepEqual(
    (await shown(version.id)).map(({ name, value, default_value }) => [name, value, default_value]),
    [
      ['z', '1', '1'],
      ['a', '*redacted*', '*redacted*'],
      ['m', 'given', ''],
    ],
  );
});

test('a redacted value that a client sends back keeps the secret', async () => {
  const source = 'variable "key" { sensitive = true }';
  const id = await templateOf('secrets', await push(source, { key: 'sesame' }));
  const second = await push(source, { key: '*redacted*' }, id);
  assert.deepEqual(second.passed, { key: 'sesame' });
});
