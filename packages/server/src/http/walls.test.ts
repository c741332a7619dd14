import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { type RouteKey, routes, type Workspace, type WorkspaceBuild } from '@ropewalk/contract';
import {
  ADMIN,
  createTestTemplate,
  insertPerson,
  startTestServer,
  type TestServer,
  takeJob,
  uploadSource,
} from '@ropewalk/testkit';
import { CompletedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { systemContext } from '../app/context/context.ts';
import { issueToken } from '../app/context/session.ts';
import { completeJob } from '../app/job/complete.ts';
import { TEMPLATES } from '../app/notification/templates.ts';
import { authorize } from '../authz/authorize.ts';
import { tokenScope } from '../authz/scope.ts';
import { sampleRequest } from './testing/route-sample.ts';

/** Calls every route of the contract without a session, as a stranger to the organization, and as a plain fellow member. */
const all = Object.keys(routes) as RouteKey[];

let server: TestServer;
/** The administrator's things, by path parameter and by field of a body. */
let things: Record<string, string>;

before(async () => {
  server = await startTestServer({
    env: {
      CODER_EXTERNAL_AUTH_0_TYPE: 'github',
      CODER_EXTERNAL_AUTH_0_CLIENT_ID: 'client',
      CODER_EXTERNAL_AUTH_0_CLIENT_SECRET: 'secret',
    },
  });
  const me = await server.api<{ id: string; organization_ids: string[] }>('GET', '/users/me');
  const template = await createTestTemplate(server, 'private');
  // nobody but its maker may use it
  const acl = await server.services.sql`UPDATE templates SET group_acl = '{}' WHERE id = ${template.id}`;
  assert.equal(acl.count, 1);
  const made = await server.api<Workspace>('POST', '/users/me/workspaces', {
    body: { name: 'mine', template_id: template.id },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const own = await takeJob(server);
  const agent = {
    id: crypto.randomUUID(),
    name: 'main',
    operatingSystem: 'linux',
    architecture: 'amd64',
    auth: { case: 'token' as const, value: crypto.randomUUID() },
  };
  const value = { resources: [{ name: 'machine', type: 'vm', agents: [agent] }] };
  const type = { case: 'workspaceBuild' as const, value };
  await completeJob(server.services, own, create(CompletedJobSchema, { jobId: own.jobId, type }));
  await server.services.sql`UPDATE workspace_builds SET has_ai_task = true`;
  const build = (await server.api<WorkspaceBuild>('GET', `/workspacebuilds/${made.body.latest_build.id}`)).body;
  const version = template.active_version_id;
  const dryRun = await server.api<{ id: string }>('POST', `/templateversions/${version}/dry-run`, { body: {} });
  assert.equal(dryRun.status, 201);
  const token = await server.api('POST', '/users/me/keys/tokens', { body: { token_name: 'ci' } });
  assert.equal(token.status, 201);
  const [key] = await server.services.sql<{ id: string }[]>`SELECT id FROM api_keys WHERE token_name = 'ci'`;
  const daemonKey = await server.api('POST', '/organizations/default/provisionerkeys', { body: { name: 'walled' } });
  assert.equal(daemonKey.status, 201);
  const group = await server.api<{ id: string }>('POST', '/organizations/default/groups', { body: { name: 'walled' } });
  assert.equal(group.status, 201);
  const role = await server.api('POST', '/organizations/default/members/roles', { body: { name: 'walled' } });
  assert.equal(role.status, 200);
  const secret = { name: 'walled', value: 'x', env_name: 'WALLED' };
  assert.equal((await server.api('POST', '/users/me/secrets', { body: secret })).status, 201);
  const app = { name: 'walled', callback_url: 'https://app.example/cb' };
  const oauth2App = await server.api<{ id: string }>('POST', '/oauth2-provider/apps', { body: app });
  assert.equal(oauth2App.status, 201);
  const oauth2Secret = await server.api<{ id: string }>('POST', `/oauth2-provider/apps/${oauth2App.body.id}/secrets`);
  assert.equal(oauth2Secret.status, 201);
  const proxy = await server.api<{ proxy: { id: string } }>('POST', '/workspaceproxies', { body: { name: 'walled' } });
  assert.equal(proxy.status, 201);
  const versionName = await server.api<{ name: string }>('GET', `/templateversions/${version}`);
  things = {
    user: me.body.id,
    keyname: 'ci',
    keyid: key!.id,
    organization: me.body.organization_ids[0]!,
    organizationname: me.body.organization_ids[0]!,
    fileID: await uploadSource(server),
    templatename: 'private',
    templateversionname: versionName.body.name,
    template: template.id,
    templateversion: version,
    jobID: dryRun.body.id,
    job: build.job.id,
    provisionerkey: 'walled',
    group: group.body.id,
    groupName: 'walled',
    roleName: 'walled',
    name: 'walled',
    app: oauth2App.body.id,
    secretID: oauth2Secret.body.id,
    externalauth: 'github',
    workspacename: 'mine',
    workspace: made.body.id,
    task: made.body.id,
    buildnumber: '1',
    workspacebuild: build.id,
    notification_template: TEMPLATES.userCreated.id,
    id: crypto.randomUUID(),
    devcontainer: crypto.randomUUID(),
    workspaceagent: build.resources[0]!.agents![0]!.id,
    agent: 'main',
    workspaceproxy: proxy.body.proxy.id,
    os: 'linux',
    arch: 'amd64',
  };
});
after(() => server.stop());

async function walk(key: RouteKey, token: string | null, about = things): Promise<{ status: number; text: string }> {
  const { method, path, ...call } = sampleRequest(key, about);
  const { status, body } = await server.api(method, path, { token, ...call });
  return { status, text: JSON.stringify(body) ?? '' };
}

test('answers only public routes without a session', async () => {
  const open = new Set<RouteKey>(all.filter((key) => ['none', 'optional'].includes(routes[key].auth)));
  assert.deepEqual([...open].sort(), [
    'GET /',
    'GET /appearance',
    'GET /applications/auth-redirect',
    'GET /auth/scopes',
    'GET /buildinfo',
    'GET /init-script/{os}/{arch}',
    'GET /updatecheck',
    'GET /users/authmethods',
    'GET /users/first',
    'GET /users/oauth2/github/callback',
    'GET /users/oauth2/github/device',
    'GET /users/oidc/callback',
    'POST /csp/reports',
    'POST /users/first',
    'POST /users/login',
    'POST /users/otp/change-password',
    'POST /users/otp/request',
    'POST /users/validate-password',
    'POST /workspaceagents/aws-instance-identity',
    'POST /workspaceagents/azure-instance-identity',
    'POST /workspaceagents/google-instance-identity',
  ]);
  const wrong: string[] = [];
  for (const key of all) {
    const { status } = await walk(key, null);
    // a sign-in with a wrong password and an invalid proof get another 401
    if (key !== 'POST /users/login' && !key.endsWith('-instance-identity') && (status === 401) === open.has(key))
      wrong.push(`${key}: ${status}`);
    if (status >= 500) wrong.push(`${key}: ${status}`);
  }
  assert.deepEqual(wrong, []);
});

/** The routes for everybody with a session. They are about the caller or about nobody. */
const EVERYBODY: RouteKey[] = [
  // a message without a tool, and two methods that the endpoint does not have
  'POST /api/experimental/mcp/http',
  'GET /api/experimental/mcp/http',
  'DELETE /api/experimental/mcp/http',
  'GET /deployment/ssh',
  'GET /experiments',
  'GET /experiments/available',
  'GET /appearance',
  'GET /entitlements',
  'GET /regions',
  // where people reach workspaces, and how well. Upstream shows it to everyone, too
  'GET /workspaceproxies',
  'GET /workspaceproxies/{workspaceproxy}',
  'GET /licenses',
  'GET /applications/host',
  'GET /workspaceagents/connection',
  'GET /derp-map',
  'GET /templates/examples',
  'GET /users/roles',
  'GET /notifications/templates/custom',
  'GET /notifications/templates/system',
  'GET /notifications/dispatch-methods',
  // apps that may ask anyone to let them in, without their secrets
  'GET /oauth2-provider/apps',
  'GET /oauth2-provider/apps/{app}',
  // one's own
  'GET /notifications/inbox',
  'GET /notifications/inbox/watch',
  'PUT /notifications/inbox/mark-all-as-read',
  'POST /notifications/custom',
  'GET /users/oidc-claims',
  'POST /authcheck',
  'POST /files',
  // their own account, which they do not have
  'GET /external-auth',
  'GET /external-auth/{externalauth}',
  'GET /external-auth/{externalauth}/device',
  'POST /external-auth/{externalauth}/device',
  // each tunnel is checked by itself: see tailnet.test.ts
  'GET /tailnet',
  // lists, which contain only readable items
  'GET /api/experimental/aitasks/prompts',
  'GET /groups',
  'GET /organizations',
  'GET /tasks',
  'GET /templates',
  'GET /users',
  'GET /workspaces',
];
/** The further routes for a fellow member of an organization. */
const FELLOW: RouteKey[] = [
  'GET /organizations/{organization}',
  'GET /organizations/{organization}/members/roles',
  'GET /organizations/{organization}/templates/examples',
  'GET /organizations/{organization}/settings/workspace-sharing',
  // lists, which contain only readable items
  'GET /organizations/{organization}/groups',
  'GET /organizations/{organization}/members',
  'GET /organizations/{organization}/paginated-members',
  'GET /organizations/{organization}/templates',
  // the names of groups, to share workspaces with. Members only see themselves in them
  'GET /groups/{group}',
  'GET /groups/{group}/members',
  'GET /organizations/{organization}/groups/{groupName}',
  'GET /organizations/{organization}/groups/{groupName}/members',
];

/** Stays open for everyone with a session. app/follow/change-feed.test.ts checks what it shows. */
const ENDLESS: RouteKey = 'GET /events';

async function walkAs(token: string, allowed: Set<RouteKey>): Promise<void> {
  const wrong: string[] = [];
  for (const key of all) {
    const { auth } = routes[key];
    if (auth === 'none' || key === 'POST /users/logout' || key === ENDLESS) continue;
    const { status, text } = await walk(key, token);
    const leaked = [things['workspace']!, things['template']!, things['fileID']!, ADMIN.email].find((secret) =>
      text.includes(secret),
    );
    if (leaked) wrong.push(`${key}: reveals ${leaked}`);
    const shut = status === 403 || status === 404 || (auth !== 'session' && status === 401);
    if (shut === allowed.has(key) || status >= 500) wrong.push(`${key}: ${status}`);
  }
  assert.deepEqual(wrong, []);
}

test('gives a stranger to the organization nothing in it', async () => {
  const stranger = await insertPerson(server, 'stranger', [], { member: false });
  await walkAs(stranger.token, new Set(EVERYBODY));
});

test('gives a fellow member nothing of another person', async () => {
  const fellow = await insertPerson(server, 'fellow');
  await walkAs(fellow.token, new Set([...EVERYBODY, ...FELLOW]));
});

/** Compares the answers about something that exists with those about a name that nothing has. */
async function assertAlike(token: string, parameter: string, name: string): Promise<void> {
  const keys = all.filter((key) => routes[key].auth === 'session' && key.includes(`{${parameter}}`));
  assert.ok(keys.length > 5);
  const wrong: string[] = [];
  for (const key of keys) {
    const answers = [];
    for (const value of [name, 'absent']) {
      const { status, text } = await walk(key, token, { ...things, [parameter]: value });
      answers.push(`${status} ${text.replaceAll(value, '…')}`);
    }
    if (answers[0] !== answers[1]) wrong.push(`${key}: ${answers.join(' or ')}`);
  }
  assert.deepEqual(wrong, []);
}

test('gives a stranger the same answers about an organization and about a name that none has', async () => {
  const { body } = await server.api<{ name: string }>('GET', `/organizations/${things['organization']}`);
  const stranger = await insertPerson(server, 'asking', [], { member: false });
  await assertAlike(stranger.token, 'organization', body.name);
  const auditor = await insertPerson(server, 'auditing', [], { member: false });
  const [away] = await server.services.sql<
    { id: string }[]
  >`INSERT INTO organizations (name) VALUES ('away') RETURNING id`;
  await server.services.sql`INSERT INTO organization_members (organization_id, user_id, roles)
    VALUES (${away!.id}, ${auditor.id}, ARRAY['organization-auditor'])`;
  await server.services.sql`UPDATE users SET updated_at = now() WHERE id = ${auditor.id}`;
  for (const name of [body.name, 'absent']) {
    const { status } = await server.api('GET', `/audit?q=organization:${name}`, { token: auditor.token });
    assert.equal(status, 400, name);
  }
});

test('gives a member the same answers about a person and about a name that nobody has', async () => {
  const member = await insertPerson(server, 'curious');
  await assertAlike(member.token, 'user', ADMIN.username);
});

test('lets a token for apps read nothing, also an administrator’s', async () => {
  await server.services.sql`UPDATE templates SET group_acl = jsonb_build_object(organization_id::text, 'use')`;
  const ctx = systemContext(server.services, 'test');
  const { text: token } = await issueToken(
    ctx,
    authorize(ctx, 'create', { type: 'api_key', ownerId: things['user']! }),
    {
      loginType: 'token',
      lifetimeMs: 3_600_000,
      scope: tokenScope(['coder:application_connect']),
    },
  );
  const wrong: string[] = [];
  for (const key of all) {
    if (routes[key].auth !== 'session' || !key.startsWith('GET ') || key === ENDLESS) continue;
    const { status, text } = await walk(key, token);
    const secrets = [things['workspace'], things['template'], things['templateversion'], things['fileID'], ADMIN.email];
    const leaked = secrets.find((secret) => text.includes(secret!));
    if (leaked) wrong.push(`${key}: reveals ${leaked}`);
    if (status >= 500) wrong.push(`${key}: ${status}`);
  }
  assert.deepEqual(wrong, []);
});
