import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import type { ProvisionerJobLog, Template, Workspace, WorkspaceBuild } from '@ropewalk/contract';
import {
  createPerson,
  failTaken,
  finishImport,
  holdTask,
  pendingVersion,
  startTestServer,
  type TestServer,
  takeJob,
  tarOf,
} from '@ropewalk/testkit';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { storedText } from '../../db/sealed.ts';
import { systemContext } from '../context/context.ts';
import type { ALL_OWNER_SECRETS } from '../evaluate/owner-secrets.ts';
import { completeJob } from '../job/complete.ts';
import { acquiredJobMessage } from '../job/message.ts';
import { actOn } from '../workspace/scheduled.ts';

interface Refusal {
  message: string;
  detail: string;
}
/** What a build got: each secret of the owner that its message contains. */
type Got = Record<keyof typeof ALL_OWNER_SECRETS | 'account', boolean>;
const ALL: Got = { sessionToken: true, sshKey: true, oidcToken: true, account: true };
const NONE: Got = { sessionToken: false, sshKey: false, oidcToken: false, account: false };

let server: TestServer;
/** Lets the server's own task of schedules run again. The tests begin automatic builds themselves. */
let letSchedulesAct: () => Promise<void>;
let owner: { id: string; token: string };
let admin: { id: string; token: string };
before(async () => {
  server = await startTestServer({
    env: {
      CODER_EXTERNAL_AUTH_0_ID: 'git',
      CODER_EXTERNAL_AUTH_0_TYPE: 'custom',
      CODER_EXTERNAL_AUTH_0_DISPLAY_NAME: 'Forge',
      CODER_EXTERNAL_AUTH_0_CLIENT_ID: 'id',
      CODER_EXTERNAL_AUTH_0_CLIENT_SECRET: 'secret',
      CODER_EXTERNAL_AUTH_0_AUTH_URL: 'http://127.0.0.1:9/login/oauth/authorize',
      CODER_EXTERNAL_AUTH_0_TOKEN_URL: 'http://127.0.0.1:9/login/oauth/token',
    },
  });
  letSchedulesAct = await holdTask(server, 'schedules');
  owner = await createPerson(server, 'alice');
  admin = await createPerson(server, 'mallory');
  const organization = await server.api<{ id: string }>('GET', '/organizations/default');
  const roles = await server.api('PUT', `/organizations/${organization.body.id}/members/mallory/roles`, {
    body: { roles: ['organization-admin'] },
  });
  assert.equal(roles.status, 200, JSON.stringify(roles.body));
  const { sql, vault } = server.services;
  await sql`INSERT INTO user_links (user_id, login_type, linked_id, access_token, refresh_token, claims)
    VALUES (${owner.id}, 'oidc', 'alice', 'of-the-provider', '', '{}')`;
  await sql`INSERT INTO external_auth_links (provider_id, user_id, access_token, refresh_token)
    VALUES ('git', ${owner.id}, ${storedText(vault.seal('of-the-account'))}, '')`;
});
after(async () => {
  await letSchedulesAct();
  await server.stop();
});

const READS_ALL = 'output "x" { value = data.coder_workspace_owner.me }';
const PARAMETERS = [
  { name: 'size', type: 'string', mutable: true, defaultValue: 'small' },
  { name: 'once', type: 'string', mutable: true, ephemeral: true, defaultValue: 'no' },
] as never;

/** A version of the organization admin whose template reads everything of the owner. */
async function version(templateId?: string, { optional = true } = {}): Promise<string> {
  const { body } = await server.api<{ hash: string }>('POST', '/files', {
    token: admin.token,
    raw: { type: 'application/x-tar', data: await tarOf({ 'main.tf': `${READS_ALL} # ${crypto.randomUUID()}` }) },
  });
  const made = await pendingVersion(server, { file_id: body.hash, ...(templateId ? { template_id: templateId } : {}) });
  await finishImport(server, await takeJob(server), {
    richParameters: PARAMETERS,
    externalAuthProviders: [{ id: 'git', optional }],
  });
  return made.id;
}

let turn = 0;
async function template(more: { optional?: boolean } = {}): Promise<Template> {
  const { status, body } = await server.api<Template>('POST', '/organizations/default/templates', {
    token: admin.token,
    body: { name: `t${++turn}`, template_version_id: await version(undefined, more) },
  });
  assert.equal(status, 201, JSON.stringify(body));
  return body;
}

const createFor = (user: string, templateId: string, token: string) =>
  server.api<Workspace & Refusal>('POST', `/users/${user}/workspaces`, {
    token,
    body: { name: `w${++turn}`, template_id: templateId, automatic_updates: 'always' },
  });

const build = (workspace: string, body: object, token: string) =>
  server.api<WorkspaceBuild & Refusal>('POST', `/workspaces/${workspace}/builds`, {
    token,
    body: { transition: 'start', ...body },
  });

/** Hands the waiting build to a daemon, which completes it. Returns what the daemon got, and the server's log lines. */
async function taken({ token, fails = false }: { token?: string; fails?: boolean } = {}): Promise<{
  got: Got;
  lines: string[];
}> {
  const own = await takeJob(server);
  const { type } = await acquiredJobMessage(server.services, own.job);
  assert.ok(type.case === 'workspaceBuild');
  const { metadata, externalAuthProviders, workspaceBuildId } = type.value;
  const agent = { id: crypto.randomUUID(), name: 'main', auth: { case: 'token' as const, value: token ?? '' } };
  const value = { resources: token ? [{ name: 'machine', type: 'vm', agents: [agent] }] : [] };
  if (fails) await failTaken(server, own, 'no machine is free');
  else {
    const done = { jobId: own.jobId, type: { case: 'workspaceBuild' as const, value } };
    await completeJob(server.services, own, create(CompletedJobSchema, done));
  }
  const logs = await server.api<ProvisionerJobLog[]>('GET', `/workspacebuilds/${workspaceBuildId}/logs`);
  return {
    got: {
      sessionToken: metadata!.workspaceOwnerSessionToken !== '',
      sshKey: metadata!.workspaceOwnerSshPrivateKey !== '',
      oidcToken: metadata!.workspaceOwnerOidcAccessToken !== '',
      account: externalAuthProviders.some(({ accessToken }) => accessToken === 'of-the-account'),
    },
    lines: logs.body.map(({ output }) => output),
  };
}

/** Begins the build that is due by the schedule of a stopped workspace. */
async function startByClock({ id, template_id }: Workspace): Promise<void> {
  await server.services.sql`UPDATE workspaces SET autostart_schedule = 'CRON_TZ=UTC 0 0 * * *',
    next_start_at = now() - interval '1 minute' WHERE id = ${id}`;
  await actOn(systemContext(server.services, 'test'), { id, template_id });
}

async function stopped(workspace: Workspace, token = owner.token): Promise<void> {
  assert.equal((await build(workspace.id, { transition: 'stop' }, token)).status, 201);
  await taken();
}

test('an organization admin who starts a workspace for another person does not get their secrets', async () => {
  const made = await createFor('alice', (await template()).id, admin.token);
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const first = await taken();
  assert.deepEqual(first.got, NONE);
  assert.deepEqual(first.lines, [
    `This build does not get alice's session token, SSH key for Git, token of the identity provider, and Forge token, which the template may use: mallory started it. Only builds that alice starts get them.`,
  ]);
  await stopped(made.body);
  assert.equal((await build(made.body.id, {}, owner.token)).status, 201);
  const second = await taken();
  assert.deepEqual([second.got, second.lines], [ALL, []]);

  // the same version and values, but not the owner's doing
  await stopped(made.body);
  assert.equal((await build(made.body.id, {}, admin.token)).status, 201);
  assert.deepEqual((await taken()).got, NONE);
});

test('another person can stop and delete a workspace, without its owner’s secrets', async () => {
  const made = await createFor('me', (await template()).id, owner.token);
  assert.deepEqual((await taken()).got, ALL);
  for (const transition of ['stop', 'delete']) {
    assert.equal((await build(made.body.id, { transition }, admin.token)).status, 201, transition);
    const { got, lines } = await taken();
    assert.deepEqual(got, NONE, transition);
    assert.match(lines[0]!, /^This build does not get alice's SSH key for Git, .*: mallory started it\./);
  }
});

test('an automatic start gets the secrets for a version and values that the owner has started', async () => {
  const { id: templateId } = await template();
  const made = await createFor('me', templateId, owner.token);
  assert.deepEqual((await taken()).got, ALL);
  await stopped(made.body);
  await startByClock(made.body);
  assert.deepEqual((await taken()).got, ALL);
  await stopped(made.body);

  // values that another person has set
  const rich_parameter_values = [{ name: 'size', value: '$(leak)' }];
  assert.equal((await build(made.body.id, { rich_parameter_values }, admin.token)).status, 201);
  await taken();
  await stopped(made.body);
  await startByClock(made.body);
  const changed = await taken();
  assert.deepEqual(changed.got, NONE);
  assert.match(
    changed.lines[0]!,
    /which the template may use: the server started it, and alice has not yet started version ".*" with these parameters\. Only builds that alice starts get them, and later automatic builds of the same version and parameters\.$/,
  );
  await stopped(made.body);

  // the owner's one-time value does not come back, so the next start is the one that they knew
  const asked = [
    { name: 'size', value: 'large' },
    { name: 'once', value: 'yes' },
  ];
  assert.equal((await build(made.body.id, { rich_parameter_values: asked }, owner.token)).status, 201);
  assert.deepEqual((await taken()).got, ALL);
  await stopped(made.body);
  await startByClock(made.body);
  assert.deepEqual((await taken()).got, ALL);
  await stopped(made.body);

  // a new active version
  const next = await version(templateId);
  const activated = await server.api('PATCH', `/templates/${templateId}/versions`, {
    token: admin.token,
    body: { id: next },
  });
  assert.equal(activated.status, 200);
  await startByClock(made.body);
  assert.deepEqual((await taken()).got, NONE);
  await stopped(made.body);
  assert.equal((await build(made.body.id, {}, owner.token)).status, 201);
  assert.deepEqual((await taken()).got, ALL);
  await stopped(made.body);
  await startByClock(made.body);
  assert.deepEqual((await taken()).got, ALL);
});

test('a start that requires an account of the owner, and would not get its token, is rejected', async () => {
  const { id: templateId } = await template({ optional: false });
  const refused = await createFor('alice', templateId, admin.token);
  assert.equal(refused.status, 400, JSON.stringify(refused.body));
  assert.match(
    refused.body.message,
    /^Only alice can start this workspace: its template requires their Forge account\.$/,
  );
  const made = await createFor('me', templateId, owner.token);
  assert.equal(made.status, 201, JSON.stringify(made.body));
  assert.deepEqual((await taken()).got, ALL);
  assert.equal((await build(made.body.id, { transition: 'stop' }, admin.token)).status, 201);
  assert.deepEqual((await taken()).got, NONE);
  await startByClock(made.body);
  assert.deepEqual((await taken()).got, ALL);
  await stopped(made.body);
  const next = await version(templateId, { optional: false });
  const activated = await server.api('PATCH', `/templates/${templateId}/versions`, {
    token: admin.token,
    body: { id: next },
  });
  assert.equal(activated.status, 200);
  await startByClock(made.body);
  const look = await server.api<Workspace>('GET', `/workspaces/${made.body.id}`);
  assert.match(
    look.body.automatic_build_error!.message,
    /^The workspace cannot start automatically: its template requires alice's Forge account, and alice has not yet started version ".*" with these parameters\. Start it once/,
  );
});

test('the agent of a workspace gets no secrets of an owner who never started it', async () => {
  const { id: templateId } = await template();
  const made = await createFor('alice', templateId, admin.token);
  const ask = async (token: string) => {
    const key = await server.api<Refusal>('GET', '/workspaceagents/me/gitsshkey', { token });
    const account = await server.api<Refusal>('GET', '/workspaceagents/me/external-auth?id=git', { token });
    return [key, account] as const;
  };
  const first = crypto.randomUUID();
  await taken({ token: first });
  for (const { status, body } of await ask(first)) {
    assert.equal(status, 403, JSON.stringify(body));
    assert.match(body.message, /^This workspace may not read data of its owner: mallory started it, not alice\.$/);
    assert.match(body.detail, /^alice can restart the workspace/);
  }
  await stopped(made.body);
  assert.equal((await build(made.body.id, {}, owner.token)).status, 201);
  const second = crypto.randomUUID();
  await taken({ token: second });
  for (const { status } of await ask(second)) assert.equal(status, 200);
  await stopped(made.body);

  // what the owner has started before may also be restarted by another person
  assert.equal((await build(made.body.id, {}, admin.token)).status, 201);
  const third = crypto.randomUUID();
  await taken({ token: third });
  for (const { status } of await ask(third)) assert.equal(status, 200);
  await stopped(made.body);
  const rich_parameter_values = [{ name: 'once', value: '$(leak)' }];
  assert.equal((await build(made.body.id, { rich_parameter_values }, admin.token)).status, 201);
  const fourth = crypto.randomUUID();
  await taken({ token: fourth });
  for (const { status } of await ask(fourth)) assert.equal(status, 403);
});
