// Icons and pictures: what requests may set, and what stays of those from templates and agents.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { IMAGE_ADDRESS, type Response, type Workspace, type WorkspaceBuild } from '@ropewalk/contract';
import {
  createTestTemplate,
  finishImport,
  pendingVersion,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { completeJob } from '../job/complete.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

const SCRIPT = 'javascript:alert(1)';
const BAD = [
  SCRIPT,
  'data:image/svg+xml,<svg/>',
  ' JavaScript:x',
  'java\tscript:x',
  'vbscript:x',
  'blob:x',
  'file:///x',
];
const GOOD = ['', '/icon/code.svg', '/emojis/1f4e6.png', 'https://example.com/a:b.png', 'HTTP://x/y', 'icon.png', '📦'];

test('accepts paths and HTTP(S) URLs as the address of an image, and no other scheme', () => {
  for (const text of GOOD) assert.match(text, IMAGE_ADDRESS);
  for (const text of BAD) assert.doesNotMatch(text, IMAGE_ADDRESS);
});

test('rejects other addresses in every request that sets an icon or a picture', async () => {
  const template = await createTestTemplate(server, 'pictures');
  const { body: group } = await server.api<{ id: string }>('POST', '/organizations/default/groups', {
    body: { name: 'pictured' },
  });
  const requests: [string, string, string, object][] = [
    ['PATCH', `/templates/${template.id}`, 'icon', {}],
    [
      'POST',
      '/organizations/default/templates',
      'icon',
      { name: 'x', template_version_id: template.active_version_id },
    ],
    ['POST', '/organizations', 'icon', { name: 'pictured' }],
    ['PATCH', '/organizations/default', 'icon', {}],
    ['PATCH', `/groups/${group.id}`, 'avatar_url', {}],
    ['POST', '/organizations/default/groups', 'avatar_url', { name: 'other' }],
  ];
  for (const [method, path, field, body] of requests) {
    for (const address of BAD) {
      const answer = await server.api<Response>(method as 'PATCH', path, { body: { ...body, [field]: address } });
      assert.equal(answer.status, 400, `${method} ${path} ${address}`);
      const detail = 'must be a path, or a URL that starts with https:// or http://';
      assert.deepEqual(answer.body.validations, [{ field, detail }]);
    }
  }
  const set = await server.api('PATCH', `/templates/${template.id}`, { body: { icon: '/icon/docker.svg' } });
  assert.equal(set.status, 200);
});

test('drops them from imports and builds, which continue', async () => {
  const version = await pendingVersion(server);
  const icon = SCRIPT;
  await finishImport(server, await takeJob(server), {
    richParameters: [{ name: 'p', type: 'string', icon, options: [{ name: 'a', value: 'a', icon }] }],
    presets: [{ name: 'one', icon, parameters: [{ name: 'p', value: 'a' }] }],
  });
  const read = async (part: string) => (await server.api('GET', `/templateversions/${version.id}/${part}`)).body;
  for (const part of ['rich-parameters', 'presets']) {
    const text = JSON.stringify(await read(part));
    assert.match(text, /"(name|Name)":"(p|one)"/);
    assert.doesNotMatch(text, /javascript/);
  }
  const template = await createTestTemplate(server, 'icons');
  const made = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name: 'icons', template_id: template.id },
  });
  const own = await takeJob(server);
  const token = crypto.randomUUID();
  const agent = {
    id: crypto.randomUUID(),
    name: 'main',
    auth: { case: 'token' as const, value: token },
    apps: [{ slug: 'web', icon, url: 'http://localhost:1' }],
    scripts: [{ displayName: 'Start', icon, script: 'true', runOnStart: true }],
  };
  const value = { resources: [{ name: 'machine', type: 'vm', icon, agents: [agent] }] };
  const type = { case: 'workspaceBuild' as const, value };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
  const { body } = await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${made.body.latest_build.id}`);
  assert.equal(body.job.status, 'succeeded', body.job.error ?? '');
  assert.equal(body.resources[0]!.agents![0]!.apps[0]!.slug, 'web');
  assert.doesNotMatch(JSON.stringify(body), /javascript/);
  const source = { id: crypto.randomUUID(), display_name: 'x', icon };
  const rejected = await server.api('POST', '/workspaceagents/me/log-source', { token, body: source });
  assert.equal(rejected.status, 400);
});
