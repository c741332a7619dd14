import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { createTestTemplate, startTestServer, type TestServer, takeJob } from '@ropewalk/testkit';
import type { ScriptSchema } from '@ropewalk/wire/proto/provisioner';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { completeJob } from './complete.ts';

let server: TestServer;
let templateId: string;
before(async () => {
  server = await startTestServer();
  templateId = (await createTestTemplate(server, 'ordered')).id;
});
after(() => server.stop());

type Waits = NonNullable<MessageInitShape<typeof ScriptSchema>['after']>;

/** Builds a workspace whose agent has the scripts a and b. b waits for these. Returns why the build failed. */
async function build(name: string, waits: Waits): Promise<string> {
  const { status } = await server.api('POST', '/users/me/workspaces', { body: { name, template_id: templateId } });
  assert.equal(status, 201);
  const own = await takeJob(server);
  const scripts = ['a', 'b'].map((script) => ({ script, displayName: script, runOnStart: true }));
  const agent = {
    name: 'main',
    auth: { case: 'token' as const, value: crypto.randomUUID() },
    scripts: [scripts[0]!, { ...scripts[1]!, after: waits }],
  };
  const value = { resources: [{ name: 'machine', type: 'vm', agents: [agent] }] };
  const done = create(CompletedJobSchema, { jobId: own.jobId, type: { case: 'workspaceBuild' as const, value } });
  await completeJob(server.services, own, done);
  const [job] = await server.services.sql<{ error: string | null }[]>`SELECT error FROM provisioner_jobs
    WHERE id = ${own.jobId}`;
  return job!.error ?? '';
}

test('stores the scripts that a script waits for', async () => {
  assert.equal(await build('waits', [{ script: 0, anyOutcome: true }]), '');
  const rows = await server.services.sql<{ id: string; script: string; waits_for: object[] }[]>`
    SELECT id, script, waits_for FROM workspace_agent_scripts ORDER BY script`;
  assert.deepEqual(
    rows.map(({ script, waits_for }) => [script, waits_for]),
    [
      ['a', []],
      ['b', [{ id: rows[0]!.id, any: true }]],
    ],
  );
});

test('rejects places without a script, and too many of them', async () => {
  for (const [at, place] of [2, -1, 2 ** 31 - 1].entries())
    assert.match(await build(`odd-${at}`, [{ script: place }]), /which its agent does not have/);
  const many = Array.from({ length: 201 }, () => ({ script: 0 }));
  assert.match(await build('many', many), /waits for 201 others, and at most 200 are allowed/);
});
