import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Template, TemplateVersion, Workspace } from '@ropewalk/contract';
import { failTaken, finishImport, importedVersion, startTestServer, type TestServer, takeJob } from '@ropewalk/testkit';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

interface Refusal {
  message: string;
  detail: string;
}
const GITHUB =
  /^The template requires the external auth provider "github", which is not configured on this server\.( Workspaces cannot start\.)?/;

async function templateOf(version: TemplateVersion, name: string): Promise<Template> {
  const { status, body } = await server.api<Template>('POST', '/organizations/default/templates', {
    body: { name, template_version_id: version.id },
  });
  assert.equal(status, 201, JSON.stringify(body));
  return body;
}

const create = (name: string, templateId: string) =>
  server.api<Workspace>('POST', '/users/me/workspaces', { body: { name, template_id: templateId } });

for (const [what, found] of Object.entries({
  'a required provider': { externalAuthProviders: [{ id: 'github', optional: false }] },
  'a required provider that an old daemon names': { externalAuthProvidersNames: ['github'] },
})) {
  test(`${what}: the template imports with a warning, and no workspace can be created`, async () => {
    const version = await importedVersion(server, {}, found);
    const { body } = await server.api<TemplateVersion>('GET', `/templateversions/${version.id}`);
    assert.deepEqual([body.job.status, body.job.error], ['succeeded', undefined]);
    const logs = await server.api<{ log_level: string; output: string }[]>(
      'GET',
      `/templateversions/${version.id}/logs`,
    );
    assert.deepEqual(
      logs.body.map(({ log_level: level }) => level),
      ['warn'],
    );
    assert.match(logs.body[0]!.output, GITHUB);

    const listed = await server.api<Refusal>('GET', `/templateversions/${version.id}/external-auth`);
    assert.equal(listed.status, 404);
    assert.match(listed.body.message, GITHUB);

    const name = `t${version.id.slice(0, 8)}`;
    const refused = await create(name, (await templateOf(version, name)).id);
    assert.equal(refused.status, 400);
    const { message, detail } = refused.body as unknown as Refusal;
    assert.match(message, GITHUB);
    assert.match(detail, /^Configure the provider on the server\. Or set "optional = true" /);
    assert.equal((await server.api('GET', `/users/me/workspace/${name}`)).status, 404, 'nothing is left of it');
  });
}

test('starts a workspace with an optional provider, and asks nobody to connect it', async () => {
  const version = await importedVersion(server, {}, { externalAuthProviders: [{ id: 'github', optional: true }] });
  const logs = await server.api<unknown[]>('GET', `/templateversions/${version.id}/logs`);
  assert.deepEqual(logs.body, []);
  assert.deepEqual((await server.api('GET', `/templateversions/${version.id}/external-auth`)).body, []);
  const template = await templateOf(version, 'optional');
  assert.equal((await create('fine', template.id)).status, 201);
  await failTaken(server, await takeJob(server), 'over');
});

test('stops and deletes a workspace whose newer version requires a provider, but does not start it', async () => {
  const template = await templateOf(await importedVersion(server), 'grown');
  const made = await create('grown', template.id);
  await failTaken(server, await takeJob(server), 'over');
  const next = await server.api<TemplateVersion>('POST', '/organizations/default/templateversions', {
    body: {
      file_id: made.body.latest_build.job.file_id,
      storage_method: 'file',
      provisioner: 'terraform',
      template_id: template.id,
    },
  });
  assert.equal(next.status, 201, JSON.stringify(next.body));
  await finishImport(server, await takeJob(server), { externalAuthProviders: [{ id: 'github', optional: false }] });
  for (const [transition, status] of [
    ['start', 400],
    ['stop', 201],
  ] as const) {
    const { status: answered } = await server.api('POST', `/workspaces/${made.body.id}/builds`, {
      body: { transition, template_version_id: next.body.id },
    });
    assert.equal(answered, status, transition);
  }
});
