// biome-ignore-all lint/suspicious/noTemplateCurlyInString: templates of Terraform's language
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Template, WorkspacesResponse } from '@ropewalk/contract';
import { systemClock } from '@ropewalk/kit';
import { createTestTemplate, eventually, startTestServer, type TestServer } from '@ropewalk/testkit';

const MINUTE = 60_000;
/** The pools of the slow template: more than one run tries. */
const POOLS = 3;
/** A tag whose evaluation always takes as long as it may: three seconds. */
const SLOW = `length([for i in range(100) : can(regex("${'(?i:[a-\\\\x{ffff}])'.repeat(150)}\${i}", "x"))])`;

let ahead = 0;
const clock = { ...systemClock, now: () => new Date(Date.now() + ahead) };
let server: TestServer;
let slow: Template;
let quick: Template;

const sql = () => server.services.sql;
const preset = (name: string) => ({ name, parameters: [], prebuild: { instances: 1 } });
const pause = async (reconciliation_paused: boolean) =>
  assert.equal((await server.api('PUT', '/prebuilds/settings', { body: { reconciliation_paused } })).status, 200);
/** A template whose builds have a tag from `setTagged` on. */
const taggedSource = (value: string) => `data "coder_workspace" "me" {}
variable "tagged" {
  type    = number
  default = 0
}
data "coder_workspace_tags" "t" {
  count = var.tagged
  tags  = { zone = ${value} }
}
`;
const setTagged = (template: Template) =>
  sql()`INSERT INTO template_version_variables (template_version_id, name, type, value, given)
    VALUES (${template.active_version_id}, 'tagged', 'number', '1', true)`;

/** The slow pools whose last attempt was within the last minute. */
const tried = async () =>
  (
    await sql()<{ count: number }[]>`SELECT count(*) FROM template_version_presets
      WHERE template_version_id = ${slow.active_version_id} AND prebuild_retry_at > ${clock.now()}`
  )[0]!.count;

before(async () => {
  server = await startTestServer({
    clock,
    // only events start a run
    env: { CODER_WORKSPACE_PREBUILDS_RECONCILIATION_INTERVAL: '1h' },
  });
  await pause(true);
  const presets = Array.from({ length: POOLS }, (_, i) => preset(`Slow ${i}`));
  // the pools are in the order of their templates' names
  slow = await createTestTemplate(server, 'a-slow', { presets }, taggedSource(SLOW));
  quick = await createTestTemplate(
    server,
    'b-quick',
    { presets: [preset('Quick')] },
    taggedSource('data.coder_workspace.me.is_prebuild ? "pool" : "people"'),
  );
  await setTagged(slow);
  await setTagged(quick);
  // room for the builds of all pools
  await sql()`INSERT INTO provisioner_daemons (organization_id, name, key_id, credential, provisioners, tags, last_seen_at)
    SELECT ${slow.organization_id}, 'daemon-' || n, gen_random_uuid(), 'test', '{terraform}', '{}', now() + interval '1 hour'
    FROM generate_series(1, ${2 * (POOLS + 1)}) n`;
});
after(() => server.stop());

test('fills the pool of a template while those of a slow template are worked through', async () => {
  await pause(false);
  const made = await eventually('a prebuilt workspace', async () => {
    const { body } = await server.api<WorkspacesResponse>(
      'GET',
      `/workspaces?q=owner:prebuilds+template:${quick.name}`,
    );
    return body.workspaces[0];
  });
  assert.equal(made!.latest_build.job.tags['zone'], 'pool');
  const before = await tried();
  assert.ok(before < POOLS, `${before} attempts of the slow template came first`);
  await eventually('an attempt for each pool', async () => (await tried()) === POOLS);
});

test('goes on immediately after a run that a slow template used up', async () => {
  ahead += 2 * MINUTE;
  assert.equal(await tried(), 0);
  await pause(true);
  await pause(false);
  await eventually('an attempt for each pool', async () => (await tried()) === POOLS);
});
