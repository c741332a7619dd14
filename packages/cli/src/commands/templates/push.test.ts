import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { TemplateVersion } from '@ropewalk/contract';
import { createLogKeeper } from '@ropewalk/server/app/job/log-keeper';
import { updateJob } from '@ropewalk/server/app/job/update';
import { failTaken, finishImport, startTestServer, type TestServer, takeJob } from '@ropewalk/testkit';
import { UpdateJobRequestSchema } from '@ropewalk/wire/proto/provisionerd';
import { run } from '../../run.ts';
import { invoke } from '../../testing/invoke.ts';

let server: TestServer;
let dir: string;
before(async () => {
  server = await startTestServer();
  dir = mkdtempSync(join(tmpdir(), 'push-'));
  writeFileSync(join(dir, 'main.tf'), '# what is in it, the daemon of these tests knows');
});
after(async () => {
  rmSync(dir, { recursive: true, force: true });
  await server.stop();
});

const VARIABLES = [
  { name: 'image', type: 'string', description: 'What to run.', defaultValue: 'debian' },
  { name: 'key', type: 'string', required: true, sensitive: true },
  { name: 'region', type: 'string', required: true },
];

/** Imports a version as a daemon does that finds these variables in it. */
async function importNext(): Promise<void> {
  const { sql } = server.services;
  const [job] = await sql<{ input: { user_variable_values: { name: string; value: string }[] } }[]>`
    SELECT input FROM provisioner_jobs WHERE started_at IS NULL AND completed_at IS NULL`;
  if (!job) return;
  const own = await takeJob(server);
  const earlier = await sql<{ name: string; value: string }[]>`
    SELECT v.name, v.value FROM template_versions tv JOIN templates t ON t.id = tv.template_id
    JOIN template_version_variables v ON v.template_version_id = t.active_version_id WHERE tv.job_id = ${own.jobId}`;
  const values = new Map([...earlier, ...job.input.user_variable_values].map(({ name, value }) => [name, value]));
  const request = create(UpdateJobRequestSchema, {
    jobId: own.jobId,
    templateVariables: VARIABLES,
    userVariableValues: [...values].map(([name, value]) => ({ name, value })),
  });
  try {
    await updateJob(server.services, own, request, createLogKeeper());
  } catch (err) {
    return failTaken(server, own, (err as Error).message);
  }
  await finishImport(server, own);
}

/** Runs `coder templates push` at a terminal where a person gives these answers, each to the question that it matches. */
async function push(flags: string[], answers: [question: RegExp, answer: string][]) {
  return pushAt(['-y', ...flags], answers, importNext);
}

async function pushAt(
  flags: string[],
  answers: [question: RegExp, answer: string][],
  importPending: () => Promise<void>,
) {
  const stdin = new PassThrough();
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  let said = '';
  let asked = '';
  const left = [...answers];
  stdout.resume();
  stderr.on('data', (part: Buffer) => {
    said += part;
    asked += part;
    const [question, answer] = left[0] ?? [];
    if (!question?.test(asked)) return;
    left.shift();
    asked = '';
    setImmediate(() => stdin.write(`${answer}\n`));
  });
  const running = { done: false };
  const home = join(dir, '.home');
  const ended = run({
    argv: ['templates', 'push', 'asked', '-d', dir, '--force-tty', '--ignore-lockfile', ...flags],
    env: { HOME: home, CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken },
    io: { stdin, stdout, stderr },
    signal: AbortSignal.timeout(60_000),
  }).finally(() => {
    running.done = true;
  });
  while (!running.done) {
    await importPending();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.equal(await ended, 0, said);
  assert.deepEqual(left, [], said);
  return said;
}

async function active() {
  const [template] = (await server.api<{ id: string; active_version_id: string }[]>('GET', '/templates')).body;
  const { body: versions } = await server.api<TemplateVersion[]>('GET', `/templates/${template!.id}/versions`);
  const rows = await server.services.sql<{ name: string; value: string }[]>`
    SELECT name, value FROM template_version_variables WHERE template_version_id = ${template!.active_version_id}`;
  return {
    versions: versions.map((one) => one.name),
    name: versions.find((one) => one.id === template!.active_version_id)!.name,
    values: Object.fromEntries(rows.map((one) => [one.name, one.value])),
  };
}

test('asks for every variable with --always-prompt', async () => {
  await push(['--name', 'v1', '--variable', 'region=eu'], [[/Variable key: $/, 'sesame']]);
  assert.deepEqual((await active()).values, { image: 'debian', key: 'sesame', region: 'eu' });

  const said = await push(
    ['--always-prompt', '--name', 'v2', '--variable', 'region=us'],
    [
      [/What to run\.\n> Variable image \(debian\): $/, 'alpine'],
      [/Variable key \(secret; empty keeps its value\): $/, ''],
      [/Variable region \(us\): $/, ''],
    ],
  );
  assert.doesNotMatch(said, /sesame/);
  const second = await active();
  assert.deepEqual(second.values, { image: 'alpine', key: 'sesame', region: 'us' });
  assert.equal(second.name, 'v2');

  const unchanged: [RegExp, string][] = [
    [/Variable image \(alpine\): $/, ''],
    [/Variable key .*: $/, ''],
    [/Variable region \(us\): $/, ''],
  ];
  await push(['--always-prompt', '--name', 'v3'], unchanged);
  const third = await active();
  assert.deepEqual(third.values, second.values);
  assert.equal(third.name, 'v3');
  await push(
    ['--always-prompt', '--name', 'v4'],
    [unchanged[0]!, [/Variable key .*: $/, 'simsalabim'], [/Variable region \(us\): $/, 'asia']],
  );
  const last = await active();
  assert.deepEqual(last.values, { image: 'alpine', key: 'simsalabim', region: 'asia' });
  assert.deepEqual(
    last.versions.filter((name) => /^v\d$/.test(name)),
    ['v1', 'v2', 'v3', 'v4'],
  );
  assert.equal(last.versions.length, 4, `${last.versions} has versions that nobody wanted`);
});

test('keeps the name of a version after asking for its variables', async () => {
  // the attempt without a value had the name before it
  VARIABLES.push({ name: 'zone', type: 'string', required: true });
  await push(['--name', 'v5'], [[/Variable zone: $/, 'a']]);
  const { name, values } = await active();
  assert.deepEqual([name, values['zone']], ['v5', 'a']);
});

test('rejects --always-prompt without a terminal before it uploads', async () => {
  const env = { CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken };
  const { code, stderr } = await invoke(['templates', 'push', 'other', '-d', dir, '-y', '--always-prompt'], env);
  assert.deepEqual([code, stderr], [1, 'error: --always-prompt requires a terminal.\n']);
  const piped = await invoke(['templates', 'push', 'other', '-d', '-', '-y', '--always-prompt', '--force-tty'], env);
  assert.match(piped.stderr, /^error: --always-prompt.* standard input\b.*\.\n$/);
});

test('pushes a folder without its symbolic links, with one warning', async (t) => {
  const links = ['a.tf', 'b.tf'].map((name) => join(dir, name));
  for (const link of links) symlinkSync('main.tf', link);
  t.after(() => {
    for (const link of links) rmSync(link);
  });
  const said = await push(['--variable', 'key=k', '--variable', 'region=eu'], []);
  assert.equal(said.match(/^Warning: [^\n]*$/gm)?.join(), 'Warning: leaving out symbolic links: a.tf, b.tf.');
});

test('offers the tags that a template names if no daemon takes its import without them', async () => {
  const { sql } = server.services;
  const tagged = join(dir, 'tagged');
  mkdirSync(tagged);
  writeFileSync(
    join(tagged, 'main.tf'),
    'variable "where" {\n  default = "eu"\n}\ndata "coder_workspace_tags" "t" {\n  tags = {\n    zone = var.where\n  }\n}\n',
  );
  const tags = { scope: 'organization', owner: '', zone: 'eu' };
  await pushAt(
    ['-d', tagged, '--name', 'tagged'],
    [
      [/Upload .*\?/, 'yes'],
      [/--provisioner-tag zone=eu[\s\S]*Import it with the tags zone=eu\?/, ''],
    ],
    async () => {
      const [job] = await sql`SELECT 1 FROM provisioner_jobs WHERE completed_at IS NULL AND tags @> '{"zone": "eu"}'`;
      if (job) await finishImport(server, await takeJob(server, tags));
    },
  );
  assert.equal((await active()).name, 'tagged');
  const left = await sql`SELECT 1 FROM provisioner_jobs WHERE completed_at IS NULL`;
  assert.equal(left.length, 0, 'the import without the tags is canceled');
});
