import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { AuditLog, AuditLogResponse, RouteKey, TemplateVersion } from '@ropewalk/contract';
import { routes } from '@ropewalk/contract';
import {
  ADMIN,
  createTestTemplate,
  failTaken,
  holdTask,
  importedVersion,
  logIn,
  pendingVersion,
  routeOf,
  startTestServer,
  type TestServer,
  takeJob,
  uploadSource,
} from '@ropewalk/testkit';
import { type OAuthServer, startOAuthServer } from '@ropewalk/testkit/oauth-server';
import { writtenType } from '../app/audit/refused.ts';
import { TEMPLATES } from '../app/notification/templates.ts';

/** Writes of people without an entry, with the reason. */
const WITHOUT_ENTRY: Partial<Record<RouteKey, string>> = {
  'POST /authcheck': 'reads permissions',
  'POST /api/experimental/mcp/http': 'the tools call other routes, whose writes have entries',
  'DELETE /api/experimental/mcp/http': 'changes nothing',
  'POST /files': 'a file has no effect until a template version uses it, which has an entry',
  'POST /templatebuilder/compose': 'composes a source, and stores nothing',
  'POST /templatebuilder/compose/template': 'app/template-builder/builder.test.ts checks its two entries',
  'POST /templatebuilder/sessions': 'stores nothing',
  'POST /templateversions/{templateversion}/dry-run': 'plans, and changes nothing',
  'POST /templateversions/{templateversion}/dynamic-parameters/evaluate': 'evaluates, and changes nothing',
  'PATCH /templateversions/{templateversion}/dry-run/{jobID}/cancel': 'ends a plan',
  'POST /workspaceagents/{workspaceagent}/app-link':
    'reads an address; app/agent/external-apps.test.ts checks the entry of a key in it',
  'POST /audit/testgenerate': 'adds the entry that it is asked for',
  'POST /notifications/test': 'sends a message to the caller, and changes nothing',
  'POST /notifications/custom': 'sends a message to the caller, and changes nothing',
  'PUT /notifications/inbox/mark-all-as-read': 'the reading of messages is nobody else’s business',
  'PUT /notifications/inbox/{id}/read-status': 'the reading of messages is nobody else’s business',
  'POST /users/{user}/webpush/subscription': 'the browsers that a person reads messages in change no access',
  'DELETE /users/{user}/webpush/subscription': 'the browsers that a person reads messages in change no access',
  'POST /users/{user}/webpush/test': 'sends a message to the caller, and changes nothing',
  'POST /tasks/{user}/{task}/send': 'acts in the workspace, as a command in a shell does',
  'POST /workspaces/{workspace}/usage': 'a heartbeat, several times a minute',
  'POST /workspaceagents/{workspaceagent}/containers/devcontainers/{devcontainer}/recreate':
    'acts in the workspace, as a command in a shell does',
  'DELETE /workspaceagents/{workspaceagent}/containers/devcontainers/{devcontainer}':
    'acts in the workspace, as a command in a shell does',
  'POST /applications/reconnecting-pty-signed-token': 'a pass of one minute; the terminal is in the connection log',
};

let server: TestServer;
let forge: OAuthServer;
let letSchedulesAct: () => Promise<void>;
before(async () => {
  forge = await startOAuthServer();
  server = await startTestServer({
    env: {
      CODER_ALLOW_WORKSPACE_RENAMES: 'true',
      CODER_ALLOW_CUSTOM_QUIET_HOURS: 'true',
      ...forge.env(0, { ID: 'forge', DEVICE_FLOW: 'true' }),
    },
  });
  // otherwise the server itself stops the workspace as soon as it is dormant
  letSchedulesAct = await holdTask(server, 'schedules');
});
after(async () => {
  await letSchedulesAct();
  await server.stop();
  await forge.stop();
});

const tried = new Set<string>();

/** Calls a route as the administrator, and returns the entries that it made. */
async function entriesOf(method: string, path: string, body?: unknown, token?: string): Promise<AuditLog[]> {
  const [{ last } = { last: '' }] = await server.services.sql<{ last: string }[]>`
    SELECT coalesce(max(time), '-infinity')::text AS last FROM audit_logs`;
  const answer = await server.api(method, path, {
    ...(body === undefined ? {} : { body }),
    ...(token === undefined ? {} : { token }),
  });
  assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
  tried.add(routeOf(method, path)!);
  const fresh = await server.services.sql<{ id: string }[]>`
    SELECT id FROM audit_logs WHERE time > ${last}::text::timestamptz ORDER BY time`;
  const { body: list } = await server.api<AuditLogResponse>('GET', '/audit?limit=100');
  return fresh.map(({ id }) => list.audit_logs.find((entry) => entry.id === id)!);
}

/** Calls a route and compares its only entry: type, action and the names of the changed fields. */
async function records(
  method: string,
  path: string,
  expected: [type: string, action: string, ...fields: string[]],
  body?: unknown,
): Promise<AuditLog> {
  const [entry, ...more] = await entriesOf(method, path, body);
  const name = `${method} ${path}`;
  assert.ok(entry, `${name} made no entry`);
  assert.equal(more.length, 0, `${name} made more than one entry: ${JSON.stringify(more)}`);
  const [type, action, ...fields] = expected;
  assert.deepEqual([entry.resource_type, entry.action], [type, action], name);
  assert.deepEqual(Object.keys(entry.diff).sort(), fields.sort(), `${name}: ${JSON.stringify(entry.diff)}`);
  assert.equal(entry.user?.username, 'admin', name);
  assert.equal(entry.ip, '127.0.0.1');
  assert.match(entry.request_id, /^(?!00000000)[0-9a-f-]{36}$/);
  assert.equal(writtenType(routeOf(method, path)!.split(' ')[1]!), type, `${name}: the type of rejected requests`);
  return entry;
}

test('every write of a person has an entry with the fields that changed', async () => {
  const password = 'a much better horse';
  const user = { username: 'vera', email: 'vera@example.com', password: 'vera correct horse', user_status: 'active' };
  const created = ['id', 'email', 'username', 'status', 'login_type', 'hashed_password'];
  const made = await records('POST', '/users', ['user', 'create', ...created], user);
  assert.equal(made.description, '{user} created user {target}');
  assert.equal(made.resource_link, '/deployment/users?filter=vera');
  assert.deepEqual(made.diff['hashed_password'], { old: '', new: '', secret: true });
  assert.doesNotMatch(JSON.stringify(made), /argon2/);
  await records('PUT', '/users/vera/profile', ['user', 'write', 'name'], { username: 'vera', name: 'Vera' });
  await records('PUT', '/users/vera/password', ['user', 'write', 'hashed_password'], { password });
  await records('PUT', '/users/vera/roles', ['user', 'write', 'rbac_roles'], { roles: ['auditor'] });
  const look = { theme_preference: 'dark', terminal_font: '' };
  await records('PUT', '/users/me/appearance', ['user', 'write'], look);
  const hint = { task_notification_alert_dismissed: true };
  await records('PUT', '/users/me/preferences', ['user', 'write'], hint);
  const quiet = { schedule: 'CRON_TZ=UTC 30 3 * * *' };
  await records('PUT', '/users/me/quiet-hours', ['user', 'write', 'quiet_hours_schedule'], quiet);
  await records('PUT', '/users/me/gitsshkey', ['git_ssh_key', 'write', 'private_key', 'public_key']);
  await records('PUT', '/users/vera/status/suspend', ['user', 'write', 'status']);
  await records('PUT', '/users/vera/status/activate', ['user', 'write', 'status']);
  const keyFields = ['created_at', 'expires_at', 'last_used', 'user_id'];
  await records('POST', '/users/me/keys', ['api_key', 'create', ...keyFields]);
  const token = { token_name: 'ci' };
  const key = await records('POST', '/users/me/keys/tokens', ['api_key', 'create', ...keyFields], token);
  const { api_key_id: keyId } = key.additional_fields as { api_key_id: string };
  await records('PUT', `/users/me/keys/${keyId}/expire`, ['api_key', 'write', 'expires_at']);
  await records('DELETE', `/users/me/keys/${keyId}`, ['api_key', 'delete', ...keyFields]);

  const secret = { name: 'pin', value: 'hunter2', env_name: 'PIN' };
  const secretFields = ['enabled', 'env_name', 'id', 'name', 'user_id', 'value'];
  await records('POST', '/users/me/secrets', ['user_secret', 'create', ...secretFields], secret);
  await records('PATCH', '/users/me/secrets/pin', ['user_secret', 'write', 'value'], { value: 'hunter3' });
  await records('DELETE', '/users/me/secrets/pin', ['user_secret', 'delete', ...secretFields]);
  const file = { format: 'env', content: 'A=b' };
  await records('POST', '/users/me/secrets/batch', ['user_secret', 'create', ...secretFields], file);

  const app = { name: 'Board', callback_url: 'https://board.example/cb' };
  const appFields = ['callback_url', 'client_type', 'metadata', 'name', 'redirect_uris'];
  const board = await records('POST', '/oauth2-provider/apps', ['oauth2_provider_app', 'create', ...appFields], app);
  const appPath = `/oauth2-provider/apps/${board.resource_id}`;
  await records('PUT', appPath, ['oauth2_provider_app', 'write', 'name'], { ...app, name: 'Boards' });
  const appSecret = await records('POST', `${appPath}/secrets`, ['oauth2_provider_app_secret', 'create']);
  const secretPath = `${appPath}/secrets/${appSecret.resource_id}`;
  await records('DELETE', secretPath, ['oauth2_provider_app_secret', 'delete']);
  await records('DELETE', appPath, ['oauth2_provider_app', 'delete', ...appFields]);
  const open = { dynamic_client_registration_enabled: true };
  await records('PUT', '/oauth2-provider/settings', ['oauth2_provider_settings', 'write', ...Object.keys(open)], open);

  const proxyFields = ['created_at', 'derp_enabled', 'id', 'name', 'region_id', 'token_hashed_secret'];
  const proxy = await records('POST', '/workspaceproxies', ['workspace_proxy', 'create', ...proxyFields], {
    name: 'eu',
  });
  assert.deepEqual(proxy.diff['token_hashed_secret'], { old: '', new: '', secret: true });
  const shown = { display_name: 'Europe' };
  await records('PATCH', '/workspaceproxies/eu', ['workspace_proxy', 'write', 'display_name'], shown);
  const renewed = { regenerate_token: true };
  await records('PATCH', '/workspaceproxies/eu', ['workspace_proxy', 'write', 'token_hashed_secret'], renewed);
  await records('PATCH', '/workspaceproxies/primary', ['workspace_proxy', 'write', 'display_name'], shown);
  await records('DELETE', '/workspaceproxies/eu', ['workspace_proxy', 'delete', ...proxyFields, 'display_name']);

  const acme = { name: 'acme', display_name: 'Acme' };
  const organization = ['name', 'display_name', 'default_org_member_roles', 'shareable_workspace_owners', 'updated_at'];
  await records('POST', '/organizations', ['organization', 'create', ...organization], acme);
  const described = { description: 'Anvils' };
  const changed = await records(
    'PATCH',
    '/organizations/acme',
    ['organization', 'write', 'description', 'updated_at'],
    described,
  );
  assert.deepEqual(changed.diff['description'], { old: '', new: 'Anvils', secret: false });
  await records('PATCH', '/organizations/acme', ['organization', 'write', 'default_org_member_roles', 'updated_at'], {
    default_org_member_roles: ['organization-auditor'],
  });
  assert.equal(changed.organization?.name, 'acme');
  await records(
    'PATCH',
    '/organizations/acme/settings/workspace-sharing',
    ['organization', 'write', 'shareable_workspace_owners', 'updated_at'],
    { shareable_workspace_owners: 'none' },
  );
  const member = ['created_at', 'updated_at', 'user_id', 'username'];
  await records('POST', '/organizations/acme/members/vera', ['organization_member', 'create', ...member]);
  const auditor = { roles: ['organization-auditor'] };
  const roles = '/organizations/acme/members/vera/roles';
  const given = await records('PUT', roles, ['organization_member', 'write', 'roles'], auditor);
  assert.deepEqual(given.diff['roles'], { old: [], new: ['organization-auditor'], secret: false });
  await records('DELETE', '/organizations/acme/members/vera', [
    'organization_member',
    'delete',
    'roles',
    'user_id',
    'username',
  ]);
  const daemons = '/organizations/acme/provisionerkeys';
  await records('POST', daemons, ['provisioner_key', 'create', 'name', 'tags', 'hashed_secret'], {
    name: 'eu',
    tags: { at: 'eu' },
  });
  await records('DELETE', `${daemons}/eu`, ['provisioner_key', 'delete', 'name']);
  await records('DELETE', '/organizations/acme', ['organization', 'delete', ...organization, 'description']);
  const known = [...created, 'name', 'rbac_roles'];
  await records('DELETE', '/users/vera', ['user', 'delete', ...known]);

  await logIn(server, ADMIN.email, ADMIN.password);
  await records('DELETE', '/users/me/sessions', ['api_key', 'delete']);

  await groups();
  await rolesAndSync();
  await entriesOf('POST', '/users', { ...user, username: 'zoe', email: 'zoe@example.com' });
  const [converted] = await entriesOf('POST', '/users/zoe/convert-login', { to_type: 'none', password: '' });
  assert.deepEqual(Object.keys(converted!.diff).sort(), ['hashed_password', 'login_type']);

  const dismissed = { dismissed_healthchecks: ['Websocket'] };
  await records('PUT', '/debug/health/settings', ['health_settings', 'write', 'dismissed_healthchecks'], dismissed);
  const named = { application_name: 'Acme' };
  const appearance = await records('PUT', '/appearance', ['appearance', 'write', 'application_name'], named);
  assert.equal(appearance.description, '{user} updated the appearance settings');

  const paused = { notifier_paused: true };
  await records('PUT', '/notifications/settings', ['notifications_settings', 'write', 'notifier_paused'], paused);
  const still = { reconciliation_paused: true };
  await records('PUT', '/prebuilds/settings', ['prebuilds_settings', 'write', 'reconciliation_paused'], still);
  const { userCreated } = TEMPLATES;
  const method = `/notifications/templates/${userCreated.id}/method`;
  await records('PUT', method, ['notification_template', 'write', 'method'], { method: 'inbox' });
  const off = { template_disabled_map: { [userCreated.id]: true } };
  await records('PUT', '/users/me/notifications/preferences', ['user', 'write'], off);

  await templates();
  await workspaces();
  await externalAccounts();
  const { body: out } = await server.api('POST', '/users/logout');
  assert.deepEqual(out, { message: 'Logged out!' });
  tried.add('POST /users/logout');
  const [last] = await server.services
    .sql`SELECT action, resource_type, user_id FROM audit_logs ORDER BY time DESC LIMIT 1`;
  assert.deepEqual([last!['action'], last!['resource_type']], ['logout', 'api_key']);

  const writes = Object.entries(routes).filter(([route, { auth }]) => auth === 'session' && !route.startsWith('GET '));
  const missed = writes.map(([route]) => route).filter((route) => !tried.has(route) && !(route in WITHOUT_ENTRY));
  assert.deepEqual(missed, [], 'add these routes to this test');
  const exempt = Object.keys(WITHOUT_ENTRY).filter((route) => tried.has(route) || !(route in routes));
  assert.deepEqual(exempt, []);
});

async function rolesAndSync(): Promise<void> {
  const roles = '/organizations/default/members/roles';
  const permission = { resource_type: 'workspace', action: 'read', negate: false };
  const role = { name: 'viewer', display_name: 'Viewer', organization_permissions: [permission] };
  const all = ['name', 'display_name', 'org_permissions'];
  await records('POST', roles, ['custom_role', 'create', ...all], role);
  const more = { ...role, organization_permissions: [permission, { ...permission, action: 'delete' }] };
  await records('PUT', roles, ['custom_role', 'write', 'org_permissions'], more);
  await records('DELETE', `${roles}/viewer`, ['custom_role', 'delete', ...all]);
  const { body: org } = await server.api<{ id: string }>('GET', '/organizations/default');
  const groupConfig = { auto_create_missing_groups: false, regex_filter: '.*' };
  for (const [path, type, gets, whole, config] of [
    [
      ...['/settings/idpsync/organization', 'idp_sync_settings_organization', org.id],
      ...[{ organization_assign_default: true }, { assign_default: true }],
    ],
    [
      ...['/organizations/default/settings/idpsync/groups', 'idp_sync_settings_group', org.id],
      ...[groupConfig, groupConfig],
    ],
    ['/organizations/default/settings/idpsync/roles', 'idp_sync_settings_role', 'organization-auditor', {}, {}],
  ] as [string, string, string, object, object][]) {
    await records('PATCH', path, [type, 'write', 'field'], { ...whole, field: 'a', mapping: {} });
    await records('PATCH', `${path}/config`, [type, 'write', 'field'], { ...config, field: 'b' });
    await records('PATCH', `${path}/mapping`, [type, 'write', 'mapping'], { add: [{ given: 'x', gets }] });
  }
}

async function groups(): Promise<void> {
  const made = await records('POST', '/organizations/default/groups', ['group', 'create', 'id', 'name'], {
    name: 'ops',
  });
  const at = `/groups/${made.resource_id}`;
  const { body: me } = await server.api<{ id: string }>('GET', '/users/me');
  const change = { quota_allowance: 5, add_users: [me.id] };
  const changed = await records('PATCH', at, ['group', 'write', 'quota_allowance', 'members'], change);
  assert.deepEqual(changed.diff['members'], { old: [], new: [me.id], secret: false });
  await records('DELETE', at, ['group', 'delete', 'id', 'name', 'quota_allowance', 'members']);
}

async function externalAccounts(): Promise<void> {
  const started = await server.api<{ device_code: string }>('GET', '/external-auth/forge/device');
  const { device_code } = started.body;
  forge.devices.set(device_code, true);
  const connected = await records('POST', '/external-auth/forge/device', ['user', 'write'], { device_code });
  assert.deepEqual(connected.additional_fields, { external_auth_connected: 'forge' });
  const gone = await records('DELETE', '/external-auth/forge', ['user', 'write']);
  assert.deepEqual(gone.additional_fields, { external_auth_disconnected: 'forge' });
}

async function templates(): Promise<void> {
  const source = await uploadSource(server);
  const body = { file_id: source, storage_method: 'file', provisioner: 'terraform', name: 'first' };
  const version = ['id', 'name', 'created_by'];
  const path = '/organizations/default/templateversions';
  const made = await records('POST', path, ['template_version', 'create', ...version], body);
  const of = `/templateversions/${made.resource_id}`;
  const canceled = await records('PATCH', `${of}/cancel`, ['template_version', 'write']);
  assert.deepEqual(canceled.additional_fields, { canceled: true });
  const template = await createTestTemplate(server, 'recorded');
  tried.add('POST /organizations/{organization}/templates');
  const { body: created } = await server.api<AuditLogResponse>('GET', '/audit?limit=5&q=resource_type:template');
  const [creation] = created.audit_logs;
  assert.equal(creation!.action, 'create');
  assert.deepEqual(creation!.diff['name'], { old: '', new: 'recorded', secret: false });
  assert.equal(creation!.resource_link, '/templates/coder/recorded');
  const at = `/templates/${template.id}`;
  const meta = { description: 'Recorded', default_ttl_ms: 3_600_000 };
  await records('PATCH', at, ['template', 'write', 'description', 'default_ttl'], meta);
  const { additional_fields: replaced } = await records('POST', `${at}/prebuilds/invalidate`, ['template', 'write']);
  assert.deepEqual(replaced, { invalidated_presets: [] });
  const first = template.active_version_id;
  const { body: renamed } = await server.api<TemplateVersion>('GET', `/templateversions/${first}`);
  const rename = { name: `${renamed.name}-a` };
  await records('PATCH', `/templateversions/${first}`, ['template_version', 'write', 'name'], rename);
  const next = await importedVersion(server, { template_id: template.id });
  await records('PATCH', `${at}/versions`, ['template', 'write', 'active_version_id'], { id: next.id });
  const archive = `/templateversions/${first}`;
  await records('POST', `${archive}/archive`, ['template_version', 'write', 'archived'], {});
  await records('POST', `${archive}/unarchive`, ['template_version', 'write', 'archived'], {});
  await pendingVersion(server, { template_id: template.id });
  await failTaken(server, await takeJob(server), 'broken');
  await records('POST', `${at}/versions/archive`, ['template', 'write'], { all: true });
  const { body: me } = await server.api<{ id: string }>('GET', '/users/me');
  const acl = { user_perms: { [me.id]: 'admin' } };
  const shared = await records('PATCH', `${at}/acl`, ['template', 'write', 'user_acl'], acl);
  assert.deepEqual(shared.diff['user_acl']!.new, { [me.id]: 'admin' });
  const empty = await createTestTemplate(server, 'deleted');
  const [deleted] = await entriesOf('DELETE', `/templates/${empty.id}`);
  assert.deepEqual([deleted!.action, deleted!.is_deleted, deleted!.resource_link], ['delete', true, '']);
  assert.deepEqual(deleted!.diff['name'], { old: 'deleted', new: '', secret: false });
}

async function workspaces(): Promise<void> {
  const template = await createTestTemplate(server, 'built');
  const created = ['id', 'name', 'owner_id', 'template_id', 'automatic_updates'];
  for (const path of ['/organizations/default/members/me/workspaces', '/users/me/workspaces']) {
    const body = { name: `dev${path.length}`, template_id: template.id };
    const entries = await entriesOf('POST', path, body);
    assert.deepEqual(
      entries.map(({ resource_type, action }) => [resource_type, action]),
      [
        ['workspace', 'create'],
        ['workspace_build', 'start'],
      ],
    );
    const [made, started] = entries;
    assert.deepEqual(Object.keys(made!.diff).sort(), created.sort());
    assert.equal(made!.resource_link, `/@admin/${body.name}`);
    assert.equal(started!.resource_link, `/@admin/${body.name}/builds/1`);
    assert.deepEqual(started!.additional_fields, {
      workspace_id: made!.resource_id,
      workspace_name: body.name,
      workspace_owner: 'admin',
      build_number: '1',
      build_reason: 'initiator',
    });
    await server.services.sql`UPDATE provisioner_jobs SET started_at = now(), completed_at = now()
      WHERE id = (SELECT job_id FROM workspace_builds WHERE id = ${started!.resource_id})`;
    if (path === '/users/me/workspaces') await oneWorkspace(made!.resource_id, started!.resource_id);
  }
}

/** The writes of a workspace as a task. Each build ends, so that the next can begin. */
async function oneTask(id: string): Promise<void> {
  for (const [method, path, action] of [
    ['POST', '/pause', 'stop'],
    ['POST', '/resume', 'start'],
    ['DELETE', '', 'delete'],
  ] as const) {
    await server.services.sql`UPDATE workspace_builds SET has_ai_task = true WHERE workspace_id = ${id}`;
    const entry = await records(method, `/tasks/me/${id}${path}`, ['workspace_build', action]);
    if (action !== 'stop') {
      await server.api('PATCH', `/workspacebuilds/${entry.resource_id}/cancel`);
      continue;
    }
    await server.services.sql`UPDATE provisioner_jobs SET started_at = now(), completed_at = now()
      WHERE id = (SELECT job_id FROM workspace_builds WHERE id = ${entry.resource_id})`;
    await server.services.sql`UPDATE workspace_builds SET has_ai_task = true WHERE workspace_id = ${id}`;
    const changed = await records('PATCH', `/tasks/me/${id}/input`, ['workspace', 'write'], { input: 'Find the bug' });
    assert.deepEqual(changed.additional_fields, { task_prompt: 'changed' });
  }
  const { active_version_id: version } = await createTestTemplate(server, 'agentic', { hasAiTasks: true });
  const entries = await entriesOf('POST', '/tasks/me', { template_version_id: version, input: 'Find the leak' });
  assert.deepEqual(
    entries.map(({ resource_type, action }) => [resource_type, action]),
    [
      ['workspace', 'create'],
      ['workspace_build', 'start'],
    ],
  );
}

async function oneWorkspace(id: string, buildId: string): Promise<void> {
  const at = `/workspaces/${id}`;
  const { body: home } = await server.api<{ id: string }>('GET', '/organizations/default');
  const everyone = { group_roles: { [home.id]: 'use' } };
  await records('PATCH', `${at}/acl`, ['workspace', 'write', 'group_acl'], everyone);
  await records('DELETE', `${at}/acl`, ['workspace', 'write', 'group_acl']);
  const { sql } = server.services;
  await sql`UPDATE workspace_builds SET deadline = now() + interval '1 hour' WHERE id = ${buildId}`;
  await records('PATCH', at, ['workspace', 'write', 'name'], { name: 'renamed' });
  const schedule = 'CRON_TZ=UTC 30 9 * * 1-5';
  await records('PUT', `${at}/autostart`, ['workspace', 'write', 'autostart_schedule', 'next_start_at'], {
    schedule,
  });
  await records('PUT', `${at}/ttl`, ['workspace', 'write', 'ttl'], { ttl_ms: 3_600_000 });
  const always = { automatic_updates: 'always' };
  await records('PUT', `${at}/autoupdates`, ['workspace', 'write', 'automatic_updates'], always);
  const deadline = new Date(Date.now() + 7_200_000).toISOString();
  const extended = await records('PUT', `${at}/extend`, ['workspace', 'write'], { deadline });
  assert.deepEqual(extended.additional_fields, { deadline });
  await records('PUT', `${at}/favorite`, ['workspace', 'write', 'favorite']);
  await records('DELETE', `${at}/favorite`, ['workspace', 'write', 'favorite']);
  await records('PUT', `${at}/dormant`, ['workspace', 'write', 'dormant_at'], { dormant: true });
  await records('PUT', `${at}/dormant`, ['workspace', 'write', 'dormant_at'], { dormant: false });
  await sql`WITH resource AS (INSERT INTO workspace_resources (job_id, transition, type, name)
      SELECT job_id, 'start', 'vm', 'machine' FROM workspace_builds WHERE id = ${buildId} RETURNING id)
    INSERT INTO workspace_agents (id, resource_id, name, auth_token, architecture, operating_system)
      SELECT gen_random_uuid(), id, 'main', gen_random_uuid(), 'amd64', 'linux' FROM resource`;
  const port = { agent_name: 'main', port: 8080 };
  const share = { ...port, share_level: 'owner', protocol: 'http' };
  await records('POST', `${at}/port-share`, ['workspace', 'write'], share);
  await records('DELETE', `${at}/port-share`, ['workspace', 'write'], port);
  const stop = await records('POST', `${at}/builds`, ['workspace_build', 'stop'], { transition: 'stop' });
  const canceled = await records('PATCH', `/workspacebuilds/${stop.resource_id}/cancel`, ['workspace_build', 'write']);
  assert.equal((canceled.additional_fields as { canceled: boolean }).canceled, true);
  await sql`UPDATE provisioner_jobs SET completed_at = now()
    WHERE id = (SELECT job_id FROM workspace_builds WHERE id = ${buildId})`;
  const state = Buffer.from('{"version":4,"serial":7,"lineage":"given","resources":[]}').toString('base64');
  const pushed = await records('PUT', `/workspacebuilds/${buildId}/state`, ['workspace_build', 'write'], { state });
  assert.equal((pushed.additional_fields as { pushed_state: { serial: number } }).pushed_state.serial, 7);
  const again = await records('POST', `${at}/restart`, ['workspace_build', 'stop'], {});
  await server.api('PATCH', `/workspacebuilds/${again.resource_id}/cancel`);
  await oneTask(id);
  const [deleted] = await entriesOf('POST', `${at}/builds`, { transition: 'delete', orphan: true });
  assert.deepEqual([deleted!.action, deleted!.is_deleted, deleted!.resource_link], ['delete', true, '']);
}
