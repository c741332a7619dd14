// biome-ignore-all lint/suspicious/noTemplateCurlyInString: templates of Terraform's language
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { Template, Workspace } from '@ropewalk/contract';
import {
  eventually,
  finishImport,
  heldUp,
  importedVersion,
  insertPerson,
  pendingVersion,
  startTestServer,
  type TestServer,
  takeJob,
  tarOf,
} from '@ropewalk/testkit';
import { UpdateJobRequestSchema } from '@ropewalk/wire/proto/provisionerd';
import { systemContext } from '../context/context.ts';
import { createLogKeeper } from '../job/log-keeper.ts';
import { updateJob } from '../job/update.ts';
import { buildTags } from '../job/workspace-tags.ts';
import { withAnswers } from '../parameters/answers.ts';

/** The longest time that a template may block the server. Without bounds, each of these took seconds. */
const MAX_MS = 200;

let server: TestServer;
let member: { id: string; token: string };
after(() => server.stop());

const tagsText = (tags: Record<string, string>) =>
  `data "coder_workspace_tags" "t" {\n  tags = {\n${Object.entries(tags)
    .map(([key, value]) => `    ${key} = ${value}\n`)
    .join('')}  }\n}\n`;

async function template(name: string, tags: Record<string, string>, main = '# nothing'): Promise<Template> {
  const uploaded = await server.api<{ hash: string }>('POST', '/files', {
    raw: { type: 'application/x-tar', data: await tarOf({ 'main.tf': `${main}\n${tagsText(tags)}` }) },
  });
  const pending = await pendingVersion(server, { file_id: uploaded.body.hash });
  const own = await takeJob(server, pending.job.tags);
  const request = create(UpdateJobRequestSchema, { jobId: own.jobId, workspaceTags: tags });
  await updateJob(server.services, own, request, createLogKeeper());
  await finishImport(server, own, {});
  const made = await server.api<Template>('POST', '/organizations/default/templates', {
    body: { name, template_version_id: pending.id },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return made.body;
}

const createIn = (templateId: string, name: string, token = member.token) =>
  server.api<{ message: string; detail: string }>('POST', '/users/me/workspaces', {
    token,
    body: { name, template_id: templateId },
  });

const LONG = `join("", [for i in range(1000) : "${'a'.repeat(100)}"])`;
const HOSTILE: Record<string, string> = {
  transpose: 'length(transpose({ for a in range(200) : a => [for b in range(300) : "v${b}"] }))',
  regex: `length([for i in range(100) : can(regex("^(a+)+$", "${'a'.repeat(40)}!\${i}"))])`,
  'long-regex': `length([for i in range(50) : can(regex("^(a+)+$", "\${${LONG}}!"))])`,
  parseint: `length([for i in range(20) : parseint(join("", [for j in range(1000) : "${'9'.repeat(100)}"]), 10)])`,
  nesting: `${'jsonencode([for a in range(1000) : '.repeat(40)}1${'])'.repeat(40)}`,
  doubling: 'length(local.l40)',
  'many-classes': `can(regex("${'(?i:[a-\\\\x{ffff}])'.repeat(150)}", "x"))`,
};
const LOCALS = `locals {\n  l0 = ["x", "y"]\n${Array.from({ length: 40 }, (_, i) => `  l${i + 1} = [local.l${i}, local.l${i}]\n`).join('')}}\n`;

const COSTLY_PARAMETERS = Array.from({ length: 100 }, (_, i) => `p${i}`);
/** A text for which RE2 has to track many positions of an expression. */
const COSTLY_VALUE = Array.from({ length: 10_000 }, (_, i) => (((i * i * 7919) % 104_729) % 2 ? 'a' : 'b')).join('');
const templates = new Map<string, Template>();
let costlyVersion: string;
let cheapVersion: string;
before(async () => {
  server = await startTestServer();
  member = await insertPerson(server, 'member');
  const parameter = { type: 'string', mutable: true, validationError: 'no' };
  const region = { ...parameter, name: 'region', validationRegex: '^[a-z]{2,10}$' };
  cheapVersion = (await importedVersion(server, {}, { richParameters: [region] })).id;
  const validationRegex = '^[ab]*a[ab]{300}c$';
  const costly = COSTLY_PARAMETERS.map((name) => ({ ...parameter, name, validationRegex }));
  costlyVersion = (await importedVersion(server, {}, { richParameters: costly })).id;
});

test('starts no thread for a template without expressions or with a plain regular expression', async () => {
  const made = await server.api<Template>('POST', '/organizations/default/templates', {
    body: { name: 'cheap', template_version_id: cheapVersion },
  });
  const { status, body } = await server.api<Workspace>('POST', '/users/me/workspaces', {
    token: member.token,
    body: { name: 'cheap', template_id: made.body.id, rich_parameter_values: [{ name: 'region', value: 'eu' }] },
  });
  assert.equal(status, 201);
  assert.equal(server.services.work.evaluation.threads, 0);
  // no later import may be mistaken for this job
  assert.equal((await server.api('PATCH', `/workspacebuilds/${body.latest_build.id}/cancel`)).status, 200);
});

describe('with hostile templates', () => {
  // all imports before the first workspace, whose job would be mistaken for an import
  before(async () => {
    for (const [name, zone] of Object.entries({ ...HOSTILE, plain: '"eu-${1 + 1}"' }))
      templates.set(name, await template(name, { zone }, LOCALS));
  });

  test('answers while it evaluates hostile templates', async () => {
    for (const name of Object.keys(HOSTILE)) {
      const { id } = templates.get(name)!;
      const health = async () => assert.equal((await fetch(`${server.url}/healthz`)).status, 200);
      const { value, longestMs } = await heldUp(() => Promise.all([createIn(id, name), health()]));
      const [{ status, body }] = value;
      assert.ok(status === 201 || status === 400, `${name}: ${status} ${JSON.stringify(body)}`);
      assert.ok(longestMs < MAX_MS, `${name}: ${longestMs} ms`);
    }
  });

  test('answers during a dry run with a hundred costly parameters', async () => {
    const { value, longestMs } = await heldUp(() =>
      server.api<{ message: string }>('POST', `/templateversions/${costlyVersion}/dry-run`, {
        body: { rich_parameter_values: COSTLY_PARAMETERS.map((name) => ({ name, value: COSTLY_VALUE })) },
      }),
    );
    assert.equal(value.status, 400);
    assert.match(value.body.message, /Invalid parameters|took more than 3 seconds/);
    assert.ok(longestMs < MAX_MS, `${longestMs} ms`);
  });

  test('runs builds of others while one person’s costly templates are evaluated, and holds no connection', async () => {
    const costly = templates.get('many-classes')!;
    const other = await insertPerson(server, 'other');
    const plain = templates.get('plain')!;
    let ended = 0;
    const many = Array.from({ length: 5 }, (_, i) => createIn(costly.id, `costly-${i}`).finally(() => ended++));
    await eventually('a thread works', () => server.services.work.evaluation.threads > 0);
    const made = await createIn(plain.id, 'mine', other.token);
    assert.equal(made.status, 201, JSON.stringify(made.body));
    assert.ok(ended < 5, 'before all of the others');
    const [job] = await server.services.sql`SELECT j.tags FROM provisioner_jobs j
    JOIN workspace_builds b ON b.job_id = j.id JOIN workspaces w ON w.id = b.workspace_id WHERE w.name = 'mine'`;
    assert.equal(job!['tags'].zone, 'eu-2');
    for (const { status } of await Promise.all(many)) assert.ok(status === 201 || status === 400 || status === 429);
  });

  test('evaluates a template for the server itself while it waits for a costly one', async () => {
    const ctx = systemContext(server.services, 'test');
    let ended = 0;
    const evaluate = async ({ id, active_version_id: versionId }: Template, name: string) => {
      const build = { versionId, ownerId: member.id, parameters: [] };
      const workspace = { id: crypto.randomUUID(), name, transition: 'start' as const };
      const answered = withAnswers(ctx, (answers) => buildTags(ctx, ctx.sql, answers, { ...build, workspace }), id);
      return answered.finally(() => ended++);
    };
    const costly = templates.get('many-classes')!;
    const many = Array.from({ length: 5 }, (_, i) => evaluate(costly, `costly-${i}`));
    await eventually('the others wait', () => ended > 0);
    const tags = await evaluate(templates.get('plain')!, 'plain');
    assert.equal(tags['zone'], 'eu-2');
    assert.ok(ended < 5, 'before all of the others');
    await Promise.all(many);
  });
});
