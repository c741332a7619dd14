import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { Template, Workspace } from '@ropewalk/contract';
import {
  createTestTemplate,
  importedVersion,
  startTestServer,
  type TestServer,
  takeJob,
  uploadSource,
} from '@ropewalk/testkit';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { completeJob } from '../../job/complete.ts';
import { acquiredJobMessage } from '../../job/message.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

const PROMPT = { name: 'AI Prompt', value: 'Find the leak' };

/** Takes the pending build and returns what its daemon receives. */
async function built() {
  const own = await takeJob(server);
  const { type } = await acquiredJobMessage(server.services, own.job);
  assert.ok(type.case === 'workspaceBuild');
  const done = { case: 'workspaceBuild' as const, value: {} };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type: done }));
  return type.value;
}

const make = (name: string, template: Template) =>
  server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name, template_id: template.id, rich_parameter_values: [PROMPT] },
  });

for (const [how, source, classic] of [
  ['the parameters of its import', '# nothing', true],
  ['evaluated parameters', 'data "coder_parameter" "size" {\n  name = "size"\n  default = "1"\n}', false],
] as const) {
  test(`a template with ${how} reads the prompt of a task without a parameter for it`, async () => {
    const name = classic ? 'classic' : 'evaluated';
    const version = await importedVersion(
      server,
      { file_id: await uploadSource(server, source) },
      { hasAiTasks: true },
    );
    const template = await server.api<Template>('POST', '/organizations/default/templates', {
      body: { name, template_version_id: version.id, template_use_classic_parameter_flow: classic },
    });
    assert.equal(template.status, 201, JSON.stringify(template.body));
    const made = await make(name, template.body);
    assert.equal(made.status, 201, JSON.stringify(made.body));
    const first = await built();
    const { id } = made.body;
    assert.deepEqual([first.metadata?.taskId, first.metadata?.taskPrompt], [id, PROMPT.value]);
    for (const transition of ['stop', 'start']) {
      assert.equal((await server.api('POST', `/workspaces/${id}/builds`, { body: { transition } })).status, 201);
      assert.equal((await built()).metadata?.taskPrompt, PROMPT.value, transition);
    }
  });
}

test('rejects a prompt for a template without tasks', async () => {
  const { status, body } = await make('none', await createTestTemplate(server, 'without'));
  assert.equal(status, 400);
  assert.match(JSON.stringify(body), /AI Prompt/);
});
