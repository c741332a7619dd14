// biome-ignore-all lint/suspicious/noTemplateCurlyInString: templates of Terraform's language
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { Template, Workspace, WorkspaceBuild } from '@ropewalk/contract';
import {
  createPerson,
  createTestTemplate,
  eventually,
  startTestServer,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { completeJob } from '../app/job/complete.ts';

/** The restarts of the slow template. */
const MANY = 12;
/** A tag whose evaluation always takes as long as it may: three seconds. */
const SLOW = `length([for i in range(100) : can(regex("${'(?i:[a-\\\\x{ffff}])'.repeat(150)}\${i}", "x"))])`;

let server: TestServer;
before(async () => {
  server = await startTestServer();
});
after(() => server.stop());

async function finishBuild(): Promise<void> {
  const own = await takeJob(server);
  const type = { case: 'workspaceBuild' as const, value: { resources: [] } };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
}

async function running(template: Template, name: string, token: string): Promise<string> {
  const body = { name, template_id: template.id };
  const made = await server.api<Workspace>('POST', '/users/me/workspaces', { token, body });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  await finishBuild();
  return made.body.id;
}

test('a restart does not wait for those of a template with slow builds', async () => {
  const source = `variable "tagged" {
  type    = number
  default = 0
}
data "coder_workspace_tags" "t" {
  count = var.tagged
  tags  = { zone = ${SLOW} }
}
`;
  const slow = await createTestTemplate(server, 'slow', {}, source);
  const quick = await createTestTemplate(server, 'quick');
  const [ann, bob] = [await createPerson(server, 'ann'), await createPerson(server, 'bob')];
  const restart = async (id: string, token: string) => {
    const { status, body } = await server.api<WorkspaceBuild>('POST', `/workspaces/${id}/restart`, { token, body: {} });
    assert.equal(status, 201, JSON.stringify(body));
    return body;
  };
  const slowIds: string[] = [];
  for (let n = 0; n < MANY; n++) slowIds.push(await running(slow, `slow-${n}`, ann.token));
  const quickId = await running(quick, 'quick', bob.token);
  for (const id of slowIds) await restart(id, ann.token);
  const stop = await restart(quickId, bob.token);
  const { sql } = server.services;
  await sql`INSERT INTO template_version_variables (template_version_id, name, type, value, given)
    VALUES (${slow.active_version_id}, 'tagged', 'number', '1', true)`;
  // all stops end at the same time, that of the other template last
  await sql`UPDATE provisioner_jobs SET started_at = now(),
      completed_at = now() + CASE WHEN id = ${stop.job.id} THEN interval '1 second' ELSE interval '0' END
    WHERE completed_at IS NULL AND type = 'workspace_build'`;
  await eventually('the other workspace starts', async () => {
    const { body } = await server.api<Workspace>('GET', `/workspaces/${quickId}`);
    return body.latest_build.transition === 'start' && body.latest_build.build_number === 3;
  });
  const [left] = await sql<{ count: number }[]>`SELECT count(*) FROM workspace_restarts`;
  assert.ok(left!.count > MANY / 2, `${MANY - left!.count} starts of the slow template came first`);
});
