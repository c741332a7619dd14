import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type {
  AuditLogResponse,
  Group,
  InvalidatePresetsResponse,
  Template,
  TemplatePrebuilds,
  Workspace,
  WorkspacesResponse,
} from '@ropewalk/contract';
import { PREBUILDS_USER_ID } from '@ropewalk/contract/permissions';
import { systemClock } from '@ropewalk/kit';
import {
  createTestTemplate,
  eventually,
  failTaken,
  insertPerson,
  startTestServer,
  type TakenJob,
  type TestServer,
  takeJob,
} from '@ropewalk/testkit';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { commitQuota } from '../job/commit-quota.ts';
import { completeJob } from '../job/complete.ts';
import { acquiredJobMessage } from '../job/message.ts';

const MINUTE = 60_000;
let ahead = 0;
const clock = { ...systemClock, now: () => new Date(Date.now() + ahead) };
let server: TestServer;
before(async () => {
  server = await startTestServer({
    clock,
    env: {
      CODER_PROMETHEUS_ENABLE: 'true',
      CODER_PROMETHEUS_ADDRESS: '127.0.0.1:0',
      CODER_WORKSPACE_PREBUILDS_RECONCILIATION_INTERVAL: '200ms',
      CODER_WORKSPACE_PREBUILDS_RECONCILIATION_BACKOFF_INTERVAL: '10m',
      CODER_WORKSPACE_PREBUILDS_RECONCILIATION_BACKOFF_LOOKBACK_PERIOD: '3h',
      CODER_WORKSPACE_PREBUILDS_FAILURE_HARD_LIMIT: '2',
    },
  });
  // gets the messages about templates
  await insertPerson(server, 'keeper', ['template-admin']);
});
after(() => server.stop());

const sql = () => server.services.sql;
const parameter = (name: string, defaultValue = '') => ({
  name,
  type: 'string',
  mutable: true,
  defaultValue,
  required: false,
});
const preset = (name: string, instances: number, values: Record<string, string> = {}) => ({
  name,
  parameters: Object.entries(values).map(([key, value]) => ({ name: key, value })),
  prebuild: { instances },
});

/** The unclaimed workspaces of a template. */
const poolOf = async (template: Template) =>
  (await server.api<WorkspacesResponse>('GET', `/workspaces?q=owner:prebuilds+template:${template.name}`)).body
    .workspaces;

const poolHas = (template: Template, count: number, what = `${count} prebuilt workspaces`) =>
  eventually(what, async () => {
    const found = await poolOf(template);
    return found.length === count ? found : undefined;
  });

/** Ends a build as a daemon does. `replaced`: a resource that the build replaced. */
async function finish(own: TakenJob, replaced?: string): Promise<void> {
  const resourceReplacements = replaced === undefined ? [] : [{ resource: replaced, paths: ['name'] }];
  const value = { resources: [{ name: 'machine', type: 'vm' }], resourceReplacements };
  const done = create(CompletedJobSchema, { jobId: own.jobId, type: { case: 'workspaceBuild' as const, value } });
  await completeJob(server.services, own, done);
}

/** Runs the builds of a pool, as daemons do, until it is as wanted. */
async function work(template: Template, what: string, isDone: (pool: Workspace[]) => boolean): Promise<Workspace[]> {
  return eventually(what, async () => {
    const pool = await poolOf(template);
    if (isDone(pool)) return pool;
    // a creation may be canceled meanwhile
    const pending = pool.some(({ latest_build: build }) => build.status === 'pending');
    const job = pending ? await takeJob(server).catch(() => undefined) : undefined;
    if (job) await finish(job);
    return undefined;
  });
}

const fill = (template: Template, size: number) =>
  work(template, `${size} running workspaces`, (pool) => {
    return pool.length === size && pool.every(({ latest_build: build }) => build.status === 'running');
  });

/** Ends the pools of a template and deletes what is left of them. */
async function end(template: Template): Promise<void> {
  await sql()`UPDATE templates SET deprecated = 'over' WHERE id = ${template.id}`;
  await work(template, 'the pool to be gone', (pool) => pool.length === 0);
}

test('replaces the workspaces of a pool when somebody who may change the template asks for it', async () => {
  const template = await createTestTemplate(server, 'stale', { presets: [preset('Small', 2)] });
  const before = await fill(template, 2);
  const path = `/templates/${template.id}/prebuilds/invalidate`;
  const member = await insertPerson(server, 'passerby');
  assert.equal((await server.api('POST', path, { token: member.token })).status, 403);
  const { status, body } = await server.api<InvalidatePresetsResponse>('POST', path);
  assert.equal(status, 200, JSON.stringify(body));
  assert.deepEqual(
    body.invalidated.map((one) => [one.template_name, one.preset_name]),
    [['stale', 'Small']],
  );
  const old = new Set(before.map(({ id }) => id));
  await work(template, 'two new workspaces', (pool) => {
    return pool.length === 2 && pool.every((one) => !old.has(one.id) && one.latest_build.status === 'running');
  });
  await end(template);
});

test('fills a pool, gives its workspaces to people and fills it again', async () => {
  const template = await createTestTemplate(server, 'quick', {
    richParameters: [parameter('size', 'small'), parameter('region', 'eu')],
    presets: [preset('Large', 2, { size: 'large' })],
  });
  const [first] = await poolHas(template, 1);
  assert.match(first!.name, /^prebuild-[a-z0-9]{9}$/);
  assert.deepEqual([first!.is_prebuild, first!.owner_name], [true, 'prebuilds']);
  const own = await takeJob(server);
  assert.equal(own.job.background, true, "people's jobs go first");
  const { audit_logs: entries } = (await server.api<AuditLogResponse>('GET', '/audit?q=username:prebuilds')).body;
  assert.deepEqual(
    entries
      .filter((entry) => entry.resource_target === first!.name)
      .map((entry) => [entry.resource_type, entry.action]),
    [
      ['workspace_build', 'start'],
      ['workspace', 'create'],
    ],
  );
  assert.ok(entries.every(({ user }) => user?.username === 'prebuilds'));
  const message = await acquiredJobMessage(server.services, own.job);
  assert.equal(message.type.case === 'workspaceBuild' && message.type.value.metadata?.prebuiltWorkspaceBuildStage, 1);
  await finish(own);
  const pool = await fill(template, 2);
  assert.ok(pool.every(({ latest_build: build }) => build.deadline === undefined));

  const ann = await insertPerson(server, 'ann');
  const claim = async (name: string, more: object, token = ann.token) =>
    await server.api<Workspace>('POST', '/users/me/workspaces', {
      body: { name, template_id: template.id, ...more },
      token,
    });
  const [{ ID: presetId } = { ID: '' }] = (
    await server.api<{ ID: string }[]>('GET', `/templateversions/${template.active_version_id}/presets`)
  ).body;
  const large = [{ name: 'size', value: 'large' }];

  const taken = await claim('mine', { template_version_preset_id: presetId, ttl_ms: 3_600_000 });
  assert.equal(taken.status, 201, JSON.stringify(taken.body));
  const oldest = pool.toSorted((a, b) => a.created_at.localeCompare(b.created_at))[0]!;
  assert.deepEqual(
    [taken.body.id, taken.body.name, taken.body.owner_id, taken.body.is_prebuild, taken.body.latest_build.build_number],
    [oldest.id, 'mine', ann.id, false, 2],
  );
  assert.equal(taken.body.latest_build.template_version_preset_id, presetId);
  const build = await takeJob(server);
  assert.equal(build.job.background, false);
  const claimed = await acquiredJobMessage(server.services, build.job);
  assert.ok(claimed.type.case === 'workspaceBuild');
  const { metadata } = claimed.type.value;
  assert.deepEqual([metadata?.prebuiltWorkspaceBuildStage, metadata?.workspaceOwner], [2, 'ann']);
  await finish(build, 'vm.machine');
  const mine = (await server.api<Workspace>('GET', `/workspaces/${taken.body.id}`)).body;
  assert.ok(mine.latest_build.deadline, 'its time begins with the claim');

  await eventually('a message about the replaced resource', async () => {
    const [note] = await sql()`SELECT content FROM inbox_notifications WHERE ${mine.id}::uuid = ANY (targets)
      AND title = 'A claimed prebuilt workspace replaced its resources'`;
    return String(note?.['content']).includes('machine');
  });
  // a name that the person has already: the prebuilt workspace stays in its pool
  assert.equal((await claim('mine', { template_version_preset_id: presetId })).status, 409);
  // the values of the preset, given by hand
  const byHand = await claim('second', { rich_parameter_values: [...large, { name: 'region', value: 'us' }] });
  assert.ok(pool.some(({ id }) => id === byHand.body.id));
  assert.equal(byHand.body.latest_build.template_version_preset_id, presetId);
  // none is ready: a usual workspace
  const usual = await claim('third', { template_version_preset_id: presetId });
  assert.equal(usual.body.latest_build.build_number, 1);
  // other values than the preset's
  const other = await claim('fourth', {});
  assert.equal(other.body.latest_build.template_version_preset_id, null);
  for (let i = 0; i < 3; i++) await finish(await takeJob(server));
  await fill(template, 2);
  assert.ok((await poolOf(template)).every(({ id }) => !pool.some((one) => one.id === id)));
  await end(template);
});

const presetOf = async ({ active_version_id: version }: Template) =>
  (await server.api<{ ID: string }[]>('GET', `/templateversions/${version}/presets`)).body[0]!.ID;

test('gives each prebuilt workspace to one person, however many ask at the same time', async () => {
  const template = await createTestTemplate(server, 'crowd', { presets: [preset('One', 3)] });
  const pool = await fill(template, 3);
  const people = await Promise.all(Array.from({ length: 6 }, (_, i) => insertPerson(server, `crowd-${i}`)));
  const preset_id = await presetOf(template);
  const made = await Promise.all(
    people.map(({ token }) =>
      server.api<Workspace>('POST', '/users/me/workspaces', {
        body: { name: 'mine', template_id: template.id, template_version_preset_id: preset_id },
        token,
      }),
    ),
  );
  assert.deepEqual([...new Set(made.map(({ status }) => status))], [201]);
  const claimed = made.filter(({ body }) => body.latest_build.build_number === 2).map(({ body }) => body.id);
  assert.deepEqual(claimed.toSorted(), pool.map(({ id }) => id).toSorted());
  for (const { body } of made) {
    const [row] = await sql()`SELECT owner_id FROM workspaces WHERE id = ${body.id}`;
    assert.equal(row!['owner_id'], body.owner_id);
  }
  for (const _ of made) await finish(await takeJob(server));
  await end(template);
});

test('waits after failures, and gives up after too many, with one message', async () => {
  const template = await createTestTemplate(server, 'broken', { presets: [preset('Bad', 1)] });
  await poolHas(template, 1);
  await failTaken(server, await takeJob(server), 'no machine is free');
  const steady = async () => {
    const before = (await sql()`SELECT count(*) AS n FROM workspaces WHERE template_id = ${template.id}`)[0]!['n'];
    // more than one check
    const [run] = await sql()`SELECT now() + interval '1 second' AS until`;
    await eventually('some checks', async () => (await sql()`SELECT now() > ${run!['until']} AS over`)[0]!['over']);
    const after = (await sql()`SELECT count(*) AS n FROM workspaces WHERE template_id = ${template.id}`)[0]!['n'];
    assert.equal(after, before);
  };
  await steady();
  ahead += 10 * MINUTE;
  await poolHas(template, 2);
  await failTaken(server, await takeJob(server), 'no machine is free');
  ahead += 4 * 60 * MINUTE;
  await steady();
  const { body } = await server.api<TemplatePrebuilds>('GET', `/templates/${template.id}/prebuilds`);
  assert.deepEqual(
    body.pools.map(({ limit_reached: limited, failed, ready }) => [limited, failed, ready]),
    [[true, 1, 0]],
  );
  const notes = await eventually('the message', async () => {
    const found = await sql()<
      { title: string }[]
    >`SELECT title FROM inbox_notifications WHERE ${template.id}::uuid = ANY (targets)`;
    return found.length > 0 ? found : undefined;
  });
  assert.deepEqual(
    notes.map(({ title }) => title),
    ["Prebuilt workspaces of 'broken' are not built any more"],
  );
  ahead = 0;
  await end(template);
});

test('gives up a pool whose values can never build, with one message, and builds the others meanwhile', async () => {
  const required = { ...parameter('size'), required: true };
  const doomed = await createTestTemplate(server, 'a-doomed', {
    richParameters: [required],
    presets: [preset('Incomplete', 1)],
  });
  const good = await createTestTemplate(server, 'good', { presets: [preset('Fine', 1)] });
  await fill(good, 1);
  const look = async () =>
    (await server.api<TemplatePrebuilds>('GET', `/templates/${doomed.id}/prebuilds`)).body.pools[0]!;
  await eventually('the first attempt', async () => /size/.test((await look()).error ?? ''));
  assert.equal((await look()).limit_reached, false);
  ahead += 10 * MINUTE;
  await eventually('the limit', async () => (await look()).limit_reached);
  await eventually('the message', async () => {
    const found = await sql()`SELECT 1 FROM inbox_notifications WHERE ${doomed.id}::uuid = ANY (targets)`;
    return found.length === 1;
  });
  ahead = 0;
  await end(good);
});

test('measures pools', async () => {
  const text = async () => (await fetch(`${server.metricsUrl}/metrics`)).text();
  const labels = '{template_name="crowd",preset_name="One",organization_name="coder"}';
  const found = await text();
  for (const [name, value] of [
    ['claimed_total', 3],
    ['failed_total', 0],
  ])
    assert.ok(found.includes(`coderd_prebuilt_workspaces_${name}${labels} ${value}\n`), `${name}\n${found}`);
  assert.match(found, /coderd_prebuilt_workspaces_created_total\{template_name="crowd".*\} [3-9]/);
  assert.match(found, /coderd_prebuilt_workspaces_reconciliation_paused 0\n/);
  const template = await createTestTemplate(server, 'measured', { presets: [preset('One', 1)] });
  await fill(template, 1);
  const now = await text();
  const { body } = await server.api<TemplatePrebuilds>('GET', `/templates/${template.id}/prebuilds`);
  assert.deepEqual(
    body.pools.map(({ preset_name: name, desired, ready, starting, failed }) => [
      name,
      desired,
      ready,
      starting,
      failed,
    ]),
    [['One', 1, 1, 0, 0]],
  );
  assert.equal(body.paused, false);
  for (const name of ['desired', 'running', 'eligible'])
    assert.ok(now.includes(`coderd_prebuilt_workspaces_${name}${labels.replace('crowd', 'measured')} 1\n`), name);
  const of = 'organization_name="coder",template_name="measured",preset_name="One"';
  const creation = `coderd_workspace_creation_duration_seconds_count{${of},type="prebuild"} 1\n`;
  await eventually('the creation is counted', async () => (await text()).includes(creation));
  const [{ ID: presetId } = { ID: '' }] = (
    await server.api<{ ID: string }[]>('GET', `/templateversions/${template.active_version_id}/presets`)
  ).body;
  const claim = { name: 'measured', template_id: template.id, template_version_preset_id: presetId };
  assert.equal((await server.api('POST', '/users/me/workspaces', { body: claim })).status, 201);
  await finish(await takeJob(server));
  const claimed = `coderd_prebuilt_workspace_claim_duration_seconds_count{${of}} 1\n`;
  await eventually('the claim is counted', async () => (await text()).includes(claimed));
  assert.ok(!(await text()).includes(`coderd_workspace_creation_total{${of}}`), 'no prebuilt workspace is a creation');
  await fill(template, 1);
  await end(template);
});

test('limits the cost of pools by the allowance of their group. Allowances of other groups do not limit it', async () => {
  const GROUPS = '/organizations/default/groups';
  const allow = (group: Group, quota_allowance: number) =>
    server.api('PATCH', `/groups/${group.id}`, { body: { quota_allowance } });
  const { body: people } = await server.api<Group>('POST', GROUPS, { body: { name: 'people', quota_allowance: 5 } });
  const template = await createTestTemplate(server, 'costly', { presets: [preset('Costly', 1)] });
  await poolHas(template, 1);
  const own = await takeJob(server);
  const commit = async (cost: number) => {
    const { ok, budget } = await commitQuota(server.services, own, cost);
    return { ok, budget };
  };
  assert.deepEqual(await commit(40), { ok: true, budget: -1 });
  const { body: group } = await server.api<Group>('GET', `${GROUPS}/coderprebuiltworkspaces`);
  assert.deepEqual([group.display_name, group.quota_allowance], ['Prebuilt Workspaces', 0]);
  assert.equal((await allow(group, 30)).status, 200);
  assert.deepEqual(await commit(40), { ok: false, budget: 30 });
  assert.deepEqual(await commit(30), { ok: true, budget: 30 });
  await finish(own);
  // without it, the next check makes it again
  for (const { id } of [group, people]) assert.equal((await server.api('DELETE', `/groups/${id}`)).status, 200);
});

test('leaves pools alone while they are paused, and replaces expired workspaces', async () => {
  const template = await createTestTemplate(server, 'paused', {
    presets: [{ ...preset('One', 1), prebuild: { instances: 1, expirationPolicy: { ttl: 3_600 } } }],
  });
  const [one] = await fill(template, 1);
  const pause = async (reconciliation_paused: boolean) =>
    assert.equal((await server.api('PUT', '/prebuilds/settings', { body: { reconciliation_paused } })).status, 200);
  await pause(true);
  ahead += 61 * MINUTE;
  const [run] = await sql()`SELECT now() + interval '1 second' AS until`;
  await eventually('some checks', async () => (await sql()`SELECT now() > ${run!['until']} AS over`)[0]!['over']);
  assert.deepEqual(
    (await poolOf(template)).map(({ latest_build: build }) => build.build_number),
    [1],
  );
  await pause(false);
  await work(template, 'another workspace', (pool) => pool.length > 0 && pool.every(({ id }) => id !== one!.id));
  ahead -= 61 * MINUTE;
  // people's workspaces keep a template, prebuilt ones do not
  assert.equal((await server.api('DELETE', `/templates/${template.id}`)).status, 200);
  await work(template, 'the pool to be gone', (pool) => pool.length === 0);
});

test('keeps the account of pools out of lists, and lets nobody change or use it', async () => {
  const { body } = await server.api<{ users: { username: string }[] }>('GET', '/users');
  assert.ok(!body.users.some(({ username }) => username === 'prebuilds'));
  const change = { username: 'mine', name: '' };
  assert.equal((await server.api('PUT', '/users/prebuilds/profile', { body: change })).status, 403);
  assert.equal((await server.api('DELETE', '/users/prebuilds')).status, 403);
  assert.equal((await server.api('POST', '/users/prebuilds/keys/tokens', { body: {} })).status, 403);
  assert.equal(
    (await server.api('PUT', '/users/prebuilds/password', { body: { password: 'correct horse battery' } })).status,
    403,
  );
  const template = await createTestTemplate(server, 'owned', { presets: [preset('One', 1)] });
  const [one] = await fill(template, 1);
  const body2 = { name: 'x', template_id: template.id };
  assert.equal((await server.api('POST', '/users/prebuilds/workspaces', { body: body2 })).status, 403);
  const dormant = { dormant: true };
  assert.equal((await server.api('PUT', `/workspaces/${one!.id}/dormant`, { body: dormant })).status, 409);
  assert.equal((await poolOf(template))[0]!.dormant_at, null);
  // those who look after templates may delete an unclaimed workspace, other people do not see it
  const ann = await insertPerson(server, 'outsider');
  const tess = await insertPerson(server, 'tess', ['template-admin']);
  const remove = (token: string) =>
    server.api('POST', `/workspaces/${one!.id}/builds`, { body: { transition: 'delete' }, token });
  assert.equal((await remove(ann.token)).status, 404);
  assert.equal((await remove(tess.token)).status, 201);
  await finish(await takeJob(server));
  await work(template, 'a new one', (pool) => pool.length === 1 && pool[0]!.id !== one!.id);
  await end(template);
  assert.equal(one!.owner_id, PREBUILDS_USER_ID);
});
