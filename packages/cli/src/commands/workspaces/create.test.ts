import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { Workspace } from '@ropewalk/contract';
import { completeJob } from '@ropewalk/server/app/job/complete';
import {
  createTestTemplate,
  eventually,
  importedVersion,
  startTestServer,
  type TestServer,
  takeJob,
  uploadSource,
} from '@ropewalk/testkit';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { invoke } from '../../testing/invoke.ts';

let server: TestServer;
before(async () => {
  server = await startTestServer({
    env: {
      CODER_EXTERNAL_AUTH_0_ID: 'forge',
      CODER_EXTERNAL_AUTH_0_TYPE: 'custom',
      CODER_EXTERNAL_AUTH_0_DISPLAY_NAME: 'Forge',
      CODER_EXTERNAL_AUTH_0_CLIENT_ID: 'id',
      CODER_EXTERNAL_AUTH_0_CLIENT_SECRET: 'secret',
      CODER_EXTERNAL_AUTH_0_AUTH_URL: 'http://127.0.0.1:1/authorize',
      CODER_EXTERNAL_AUTH_0_TOKEN_URL: 'http://127.0.0.1:1/token',
    },
  });
  const parameter = (name: string) => ({ name, type: 'string', defaultValue: 'unset', mutable: true });
  await createTestTemplate(server, 'sized', {
    richParameters: [parameter('size'), parameter('plain')],
    presets: [
      { name: 'Big', default: true, parameters: [{ name: 'size', value: 'huge' }] },
      {
        name: 'Both',
        parameters: [
          { name: 'size', value: 'huge' },
          { name: 'plain', value: 'theirs' },
        ],
      },
      { name: 'Empty' },
    ],
  });
});
after(() => server.stop());

/** Runs `coder create`, completes each of its jobs, and returns its output and the parameter values of the build. */
async function createWorkspace(name: string, flags: string[], stdin: string | string[] = '') {
  const running = { done: false };
  const outcome = invoke(
    ['create', name, '-t', 'sized', ...flags],
    { CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken },
    stdin,
  ).finally(() => {
    running.done = true;
  });
  const { sql } = server.services;
  let planned: unknown;
  while (!running.done) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    const [job] = await sql<{ type: string; input: Record<string, unknown> }[]>`
      SELECT type::text, input FROM provisioner_jobs WHERE started_at IS NULL AND completed_at IS NULL`;
    if (!job) continue;
    // the daemon of the testkit serves the default organization
    await sql`UPDATE provisioner_jobs SET organization_id = (SELECT id FROM organizations WHERE is_default)`;
    const own = await takeJob(server);
    const dry = job.type === 'template_version_dry_run';
    if (dry) planned = job.input['rich_parameter_values'];
    const type = dry ? { case: 'templateDryRun' as const, value: {} } : { case: 'workspaceBuild' as const, value: {} };
    await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
  }
  const { code, stdout, stderr } = await outcome;
  assert.equal(code, 0, stderr);
  const made = await server.api<Workspace>('GET', `/users/me/workspace/${name}`);
  const { body } = await server.api<{ name: string; value: string }[]>(
    'GET',
    `/workspacebuilds/${made.body.latest_build.id}/parameters`,
  );
  const values = Object.fromEntries(body.map((one) => [one.name, one.value]));
  return { stdout, stderr, values, planned };
}

test('applies the default preset and prints its values', async () => {
  const { stdout, stderr, values } = await createWorkspace('defaulted', ['-y', '--parameter', 'plain=mine']);
  assert.match(stdout, /^Preset "Big" \(default\) applied: size=huge$/m);
  assert.equal(stderr, '');
  assert.deepEqual(values, { size: 'huge', plain: 'mine' });
});

test('does not apply a default preset that contradicts other values', async (t) => {
  const flag = await createWorkspace('tiny', ['-y', '--parameter', 'size=tiny']);
  assert.doesNotMatch(flag.stdout, /Preset/);
  assert.equal(
    flag.stderr,
    'Not applying the default preset "Big": it sets size=huge, which contradicts --parameter size=tiny.\n',
  );
  assert.deepEqual(flag.values, { size: 'tiny', plain: 'unset' });

  const path = join(tmpdir(), `values-${process.pid}.yaml`);
  t.after(() => rmSync(path, { force: true }));
  writeFileSync(path, 'size: small\n');
  const file = await createWorkspace('filed', ['-y', '--rich-parameter-file', path]);
  assert.match(file.stderr, /contradicts size=small of --rich-parameter-file/);
  assert.equal(file.values['size'], 'small');

  const copy = await createWorkspace('copied', ['-y', '--copy-parameters-from', 'tiny']);
  assert.match(copy.stderr, /contradicts size=tiny of --copy-parameters-from/);
  assert.deepEqual(copy.values, { size: 'tiny', plain: 'unset' });

  const same = await createWorkspace('same', ['-y', '--parameter', 'size=huge']);
  assert.match(same.stdout, /Preset "Big" \(default\) applied/);
  const none = await createWorkspace('none', ['-y', '--preset', 'none']);
  assert.equal(none.stderr, '');
  assert.deepEqual(none.values, { size: 'unset', plain: 'unset' });
});

test('prefers a named preset to flags and warns of each flag without effect', async () => {
  const flags = ['--preset', 'Both', '--parameter', 'plain=mine', '--parameter', 'size=huge'];
  const { stdout, stderr, values, planned } = await createWorkspace('named', ['--force-tty', ...flags], 'yes\n');
  assert.match(stdout, /^Preset "Both" applied: size=huge, plain=theirs$/m);
  assert.match(stderr, /^Warning: --parameter plain=mine has no effect: the preset "Both" sets plain=theirs\.$/m);
  assert.doesNotMatch(stderr, /parameter size/);
  const wanted = { size: 'huge', plain: 'theirs' };
  assert.deepEqual(values, wanted);
  assert.deepEqual(
    Object.fromEntries((planned as { name: string; value: string }[]).map((one) => [one.name, one.value])),
    wanted,
  );
  const empty = await createWorkspace('empty', ['-y', '--preset', 'Empty', '--parameter', 'size=tiny']);
  assert.match(empty.stdout, /^Preset "Empty" applied: it sets no values$/m);
  assert.equal(empty.values['size'], 'tiny');
});

test('finds a template by name in every organization and asks for --org if several have it', async () => {
  const { sql } = server.services;
  const made = await server.api<{ id: string }>('POST', '/organizations', { body: { name: 'second' } });
  assert.equal(made.status, 201);
  await createTestTemplate(server, 'moved');
  await createTestTemplate(server, 'twin');
  await sql`UPDATE templates SET organization_id = ${made.body.id} WHERE name IN ('moved', 'twin')`;
  await sql`UPDATE template_versions SET organization_id = ${made.body.id}
    WHERE template_id IN (SELECT id FROM templates WHERE organization_id = ${made.body.id})`;
  await createTestTemplate(server, 'twin');
  await createWorkspace('here', ['-y']);
  await createWorkspace('there', ['-y', '-t', 'moved']);
  await createWorkspace('chosen', ['-y', '-t', 'twin', '-O', 'second']);
  const asked = await createWorkspace('asked', ['-y', '--force-tty', '-t', 'twin'], 'second\n');
  assert.match(asked.stderr, /Organization/);
  const chosen = await server.api<Workspace>('GET', '/users/me/workspace/asked');
  assert.equal(chosen.body.organization_id, made.body.id);
  const env = { CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken };
  const both = await invoke(['create', 'both', '-y', '-t', 'twin'], env);
  assert.deepEqual([both.code, both.stdout], [1, '']);
  assert.match(
    both.stderr,
    /^error: Several organizations have a template "twin" \([^)]*second[^)]*\): choose one with --org\.\n$/,
  );
  const none = await invoke(['create', 'none-such', '-y', '-t', 'nowhere'], env);
  assert.match(none.stderr, /^error: Template "nowhere" not found, or you don't have access to it\. [^\n]+\n$/);
});

test('returns with --no-wait as soon as the build is queued', async () => {
  const env = { CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken };
  const { code, stdout, stderr } = await invoke(['create', 'unwaited', '-t', 'sized', '-y', '--no-wait'], env);
  assert.deepEqual([code, stderr], [0, '']);
  assert.match(
    stdout,
    /\nThe workspace unwaited has been queued\. Follow its build with: coder logs unwaited --follow\n$/,
  );
  const made = await server.api<Workspace>('GET', '/users/me/workspace/unwaited');
  assert.equal(made.body.latest_build.job.status, 'pending');
  await server.api('PATCH', `/workspacebuilds/${made.body.latest_build.id}/cancel`);
});

test('sets ephemeral parameters for the first build, and asks only where --use-parameter-defaults finds none', async () => {
  const parameter = { type: 'string', mutable: true };
  await createTestTemplate(server, 'mixed', {
    richParameters: [
      { ...parameter, name: 'plain', defaultValue: 'unset' },
      { ...parameter, name: 'needed', required: true },
      { ...parameter, name: 'once', defaultValue: 'no', ephemeral: true },
    ],
  });
  const flags = ['-t', 'mixed', '--force-tty', '--ephemeral-parameter', 'once=yes', '--use-parameter-defaults'];
  const used = await createWorkspace('used', flags, ['mine', 'yes']);
  assert.deepEqual(used.values, { plain: 'unset', needed: 'mine', once: 'yes' });
  assert.match(used.stderr, /needed\n/);
  assert.doesNotMatch(used.stderr, /plain\n/);
  const asked = await createWorkspace('asked-all', flags.slice(0, -1), ['first', 'second', 'yes']);
  assert.deepEqual(asked.values, { needed: 'first', plain: 'second', once: 'yes' });
  const again = ['-t', 'mixed', '--force-tty', '--copy-parameters-from', 'used', '--always-prompt'];
  const copied = await createWorkspace('again', again, ['other', '', 'yes']);
  assert.deepEqual([copied.values['needed'], copied.values['plain']], ['other', 'unset']);
});

const DYNAMIC = `
data "coder_parameter" "kind" {
  name    = "kind"
  mutable = true
  option {
    name  = "Plain"
    value = "plain"
  }
  option {
    name  = "With a disk"
    value = "disk"
  }
}
data "coder_parameter" "disk" {
  count   = data.coder_parameter.kind.value == "disk" ? 1 : 0
  name    = "disk"
  type    = "number"
  mutable = true
  order   = 1
  validation {
    min   = 10
    max   = 20
    error = "Choose {min} to {max}"
  }
}
`;

test('asks for the parameters that the answers so far leave open', async () => {
  const { sql } = server.services;
  const version = await importedVersion(server, { file_id: await uploadSource(server, DYNAMIC) });
  await sql`UPDATE template_version_terraform_values SET provisionerd_version = '1.8'
    WHERE template_version_id = ${version.id}`;
  const made = await server.api('POST', '/organizations/default/templates', {
    body: { name: 'open', template_version_id: version.id, template_use_classic_parameter_flow: false },
  });
  assert.equal(made.status, 201);
  const asked = await createWorkspace('answered', ['-t', 'open', '--force-tty'], ['2', '5', '12', 'yes']);
  assert.match(asked.stderr, /Choose 10 to 20/);
  assert.deepEqual(asked.values, { kind: 'disk', disk: '12' });
  const plain = await createWorkspace('plainly', ['-t', 'open', '--force-tty'], ['1', 'yes']);
  assert.deepEqual(plain.values, { kind: 'plain' });
  const flags = await createWorkspace('flagged', [
    '-t',
    'open',
    '-y',
    '--parameter',
    'disk=11',
    '--parameter',
    'kind=disk',
  ]);
  assert.deepEqual(flags.values, { kind: 'disk', disk: '11' });
  const env = { CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken };
  const hidden = await invoke(
    ['create', 'hidden', '-y', '-t', 'open', '--parameter', 'kind=plain', '--parameter', 'disk=11'],
    env,
  );
  assert.match(hidden.stderr, /Unknown parameter "disk"\. The template has: kind/);
  const missing = await invoke(['create', 'missing', '-y', '-t', 'open'], env);
  assert.match(missing.stderr, /Missing value for the parameter "kind"/);
});

test('waits in a terminal until a required account is connected, and shows where to connect it', async () => {
  await createTestTemplate(server, 'linked', { externalAuthProviders: [{ id: 'forge', optional: false }] });
  const env = { CODER_URL: server.url, CODER_SESSION_TOKEN: server.adminToken };
  const command = ['create', 'linked', '-t', 'linked', '--yes'];
  const rejected = await invoke(command, env);
  assert.equal(rejected.code, 1);
  assert.match(rejected.stderr, /Your Forge account has to be connected.*http.*\/external-auth\/forge/s);

  const printed: string[] = [];
  const said = (text: string) => printed.some((soFar) => soFar.includes(text));
  const running = invoke([...command, '--force-tty'], env, '', (soFar) => void printed.push(soFar));
  await eventually('the link', () => said(`\t${server.accessUrl}/external-auth/forge\n`));
  await server.services.sql`INSERT INTO external_auth_links (provider_id, user_id, access_token, refresh_token)
    SELECT 'forge', id, 'token', '' FROM users WHERE username = 'admin'`;
  const made = await eventually('the workspace', async () => {
    const found = await server.api<Workspace>('GET', '/users/me/workspace/linked');
    return found.status === 200 && found.body;
  });
  assert.ok(said('Your Forge account is connected.'));
  const own = await takeJob(server);
  const type = { case: 'workspaceBuild' as const, value: {} };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
  assert.equal((await running).code, 0);
  assert.equal(made.template_name, 'linked');
});
