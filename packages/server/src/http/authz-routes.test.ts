import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { apiPath, type RouteDef, type RouteKey, routes } from '@ropewalk/contract';
import { insertPerson, limitedToken, startTestServer, type TestServer } from '@ropewalk/testkit';
import { TEMPLATES } from '../app/notification/templates.ts';
import { organizationRoles, siteRoles } from '../authz/policy.ts';
import { tokenScope } from '../authz/scope.ts';
import { sampleRequest } from './testing/route-sample.ts';

// Calls every route with every built-in role, and with limited tokens of an owner, about objects of the caller, of another person of the same organization,
// and of another organization, and compares the statuses with a checked-in table. Nothing is ever written: a trigger
// stops the first write of a request, whose status is then 504 and stands in the table as `write`. So a cell is `ok`
// (a read that succeeded), `write` (permitted, up to the first write), or the status of a rejection. 400, 409 and 412
// mean that the request was permitted as far as a rule about its content, and 503 that the workspace's agent is away.

let server: TestServer;
after(() => server?.stop());

type Things = Record<string, string>;
type Place = 'own' | 'same' | 'foreign';
interface Caller {
  role: string;
  id: string;
  token: string;
}

const callers: Caller[] = [];
/** Tokens of an owner, so that only their limits reject a request. */
const limited: Caller[] = [];
const things = {} as Record<Exclude<Place, 'own'>, Things>;
const ownThings = new Map<string, Things>();

/** A template of an organization with an imported version. */
async function insertTemplate(organization: string, creator: string, name: string, groupAcl: object): Promise<Things> {
  const { sql } = server.services;
  const ids = { fileID: crypto.randomUUID(), template: crypto.randomUUID(), templateversion: crypto.randomUUID() };
  const job = crypto.randomUUID();
  await sql.begin(async (tx) => {
    await tx`INSERT INTO files (id, hash, mimetype, data, created_by)
      VALUES (${ids.fileID}, ${ids.fileID}, 'application/x-tar', ${Buffer.alloc(1024)}, ${creator})`;
    await tx`INSERT INTO provisioner_jobs (id, organization_id, initiator_id, type, file_id, input, started_at, completed_at)
      VALUES (${job}, ${organization}, ${creator}, 'template_version_import', ${ids.fileID},
        ${tx.json({ template_version_id: ids.templateversion })}, now(), now())`;
    await tx`INSERT INTO templates (id, organization_id, name, active_version_id, created_by, group_acl)
      VALUES (${ids.template}, ${organization}, ${name}, ${ids.templateversion}, ${creator}, ${tx.json(groupAcl as never)})`;
    await tx`INSERT INTO template_versions (id, template_id, organization_id, name, job_id, created_by)
      VALUES (${ids.templateversion}, ${ids.template}, ${organization}, 'v1', ${job}, ${creator})`;
  });
  return { ...ids, templatename: name, templateversionname: 'v1', job };
}

/** A person's running workspace, with an agent. */
async function insertWorkspace(owner: string, organization: string, of: Things): Promise<Things> {
  const { sql } = server.services;
  const [id, build, job, resource, agent, dryRun] = Array.from({ length: 6 }, () => crypto.randomUUID());
  const input = { template_version_id: of['templateversion']! };
  await sql.begin(async (tx) => {
    await tx`INSERT INTO workspaces (id, owner_id, organization_id, template_id, name)
      VALUES (${id!}, ${owner}, ${organization}, ${of['template']!}, 'dev')`;
    for (const [each, type] of [
      [job!, 'workspace_build'],
      [dryRun!, 'template_version_dry_run'],
    ] as const) {
      await tx`INSERT INTO provisioner_jobs (id, organization_id, initiator_id, type, file_id, input, started_at, completed_at)
        VALUES (${each}, ${organization}, ${owner}, ${type}, ${of['fileID']!},
          ${tx.json(type === 'workspace_build' ? { workspace_build_id: build! } : input)}, now(), now())`;
    }
    await tx`INSERT INTO workspace_builds (id, workspace_id, template_version_id, build_number, transition, initiator_id, job_id,
        has_ai_task)
      VALUES (${build!}, ${id!}, ${of['templateversion']!}, 1, 'start', ${owner}, ${job!}, true)`;
    await tx`INSERT INTO workspace_resources (id, job_id, transition, type, name)
      VALUES (${resource!}, ${job!}, 'start', 'coder_external_agent', 'machine')`;
    await tx`INSERT INTO workspace_agents (id, resource_id, name, auth_token, architecture, operating_system,
        lifecycle_state, first_connected_at, last_connected_at)
      VALUES (${agent!}, ${resource!}, 'main', gen_random_uuid(), 'amd64', 'linux', 'ready', now(), now())`;
  });
  return {
    workspace: id!,
    task: id!,
    workspacename: 'dev',
    buildnumber: '1',
    workspacebuild: build!,
    workspaceagent: agent!,
    agent: 'main',
    jobID: dryRun!,
  };
}

/** A token and a secret of a person, and a group with this member. */
async function insertBelongings(owner: string, organization: string, group: string): Promise<Things> {
  const { sql } = server.services;
  const key = crypto.randomUUID().slice(0, 10);
  await sql`INSERT INTO api_keys (id, user_id, hashed_secret, token_name, login_type, lifetime_seconds, expires_at)
    VALUES (${key}, ${owner}, '\\x00', 'ci', 'token', 3600, now() + interval '1 hour')`;
  const [row] = await sql<{ id: string }[]>`INSERT INTO groups (organization_id, name)
    VALUES (${organization}, ${group}) RETURNING id`;
  await sql`INSERT INTO group_members (group_id, organization_id, user_id) VALUES (${row!.id}, ${organization}, ${owner})`;
  await sql`INSERT INTO user_secrets (user_id, name, value, value_bytes, env_name) VALUES (${owner}, 'pin', 'x', 1, 'PIN')`;
  const [app] = await sql<{ id: string }[]>`INSERT INTO oauth2_provider_apps (name, callback_url, redirect_uris)
    VALUES ('app', 'https://app.example/cb', '{https://app.example/cb}') RETURNING id`;
  const [secret] = await sql<{ id: string }[]>`INSERT INTO oauth2_provider_app_secrets
      (app_id, secret_prefix, hashed_secret, display_secret) VALUES (${app!.id}, ${key}, '\\x00', 'abcdef') RETURNING id`;
  const [message] = await sql<
    { id: string }[]
  >`INSERT INTO inbox_notifications (id, user_id, template_id, title, content)
    VALUES (gen_random_uuid(), ${owner}, ${TEMPLATES.userCreated.id}, 'title', 'content') RETURNING id`;
  return {
    user: owner,
    name: 'pin',
    keyid: key,
    keyname: 'ci',
    group: row!.id,
    groupName: group,
    id: message!.id,
    app: app!.id,
    secretID: secret!.id,
  };
}

const SITE = Object.keys(siteRoles);
/** In another organization, all roles of an organization are the same: none. */
const FOREIGN = [...SITE, 'organization-admin'];
const IMPLIED = ['organization-member', 'organization-workspace-access'];
const ORGANIZATION = Object.keys(organizationRoles).filter((name) => !IMPLIED.includes(name));

before(async () => {
  server = await startTestServer();
  const { sql } = server.services;
  const [home] = await sql<{ id: string }[]>`SELECT id FROM organizations WHERE is_default`;
  const [away] = await sql<{ id: string }[]>`INSERT INTO organizations (name) VALUES ('away') RETURNING id`;
  const admin = await insertPerson(server, 'maker');
  const stranger = await insertPerson(server, 'stranger', [], { member: false });
  await sql`INSERT INTO organization_members (organization_id, user_id) VALUES (${away!.id}, ${stranger.id})`;
  for (const { id } of [home!, away!]) {
    await sql`INSERT INTO custom_roles (organization_id, name) VALUES (${id}, 'custom')`;
    await sql`INSERT INTO provisioner_keys (organization_id, name, hashed_secret)
      VALUES (${id}, 'rack', decode(md5(${id}), 'hex'))`;
  }
  await sql`INSERT INTO workspace_proxies (id, name, hashed_secret) VALUES (gen_random_uuid(), 'far', '')`;
  const shared = await insertTemplate(home!.id, admin.id, 'shared', { [home!.id]: 'use' });
  const hidden = await insertTemplate(home!.id, admin.id, 'hidden', {});
  const theirs = await insertTemplate(away!.id, stranger.id, 'theirs', { [away!.id]: 'use' });
  const place = (organization: string) => ({
    organization,
    organizationname: organization,
    roleName: 'custom',
    provisionerkey: 'rack',
    externalauth: 'absent',
    notification_template: TEMPLATES.userCreated.id,
    devcontainer: '6d1f9a52-0000-4000-8000-000000000001',
    workspaceproxy: 'far',
  });
  const belongings = async (owner: string, organization: string, of: Things, group: string) => ({
    ...place(organization),
    ...of,
    ...(await insertWorkspace(owner, organization, of)),
    ...(await insertBelongings(owner, organization, group)),
  });
  things.same = await belongings(admin.id, home!.id, hidden, 'makers');
  things.foreign = await belongings(stranger.id, away!.id, theirs, 'strangers');
  for (const role of [...SITE, ...ORGANIZATION]) {
    const site = role !== 'member' && SITE.includes(role) ? [role] : [];
    const person = await insertPerson(server, role, site);
    if (ORGANIZATION.includes(role)) {
      await sql`UPDATE organization_members SET roles = ${[role]} WHERE user_id = ${person.id}`;
    }
    ownThings.set(role, await belongings(person.id, home!.id, shared, `of-${role}`));
    callers.push({ role, ...person });
  }
  const owner = callers.find(({ role }) => role === 'owner')!;
  for (const [role, scope] of Object.entries({
    'workspace:read': tokenScope(['workspace:read']),
    'api_key:*': tokenScope(['api_key:*']),
    'coder:workspaces.operate': tokenScope(['coder:workspaces.operate']),
    'one-workspace': tokenScope(['coder:all'], [`workspace:${ownThings.get('owner')!['workspace']}`]),
  })) {
    limited.push({ ...owner, role, token: await limitedToken(server, owner.id, scope) });
  }
  await stopWrites();
});

/** Makes every write of a request fail, except the record of the request and of the session's use. */
async function stopWrites(): Promise<void> {
  const { sql } = server.services;
  // the first reader stores the defaults of these
  const stored = ['/appearance', '/debug/health', '/debug/health/settings', '/notifications/settings'];
  for (const path of [...stored, '/prebuilds/settings', '/regions']) await server.api('GET', path);
  await sql`UPDATE users SET last_seen_at = now()`;
  await sql`UPDATE api_keys SET last_used = now() + interval '1 hour'`;
  await sql.unsafe(`
    CREATE FUNCTION stop_write() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'a request reached a write' USING ERRCODE = 'query_canceled'; END $$;
    DO $$ DECLARE t text; BEGIN
      FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'audit_logs' LOOP
        EXECUTE format('CREATE TRIGGER stop_write BEFORE INSERT OR UPDATE OR DELETE ON %I
          FOR EACH STATEMENT EXECUTE FUNCTION stop_write()', t);
      END LOOP;
    END $$`);
}

/** The fields of a body that name an object with a place. */
const NAMING = /"(template_id|template_version_id|file_id)"|"required":\[[^\]]*"organization_id"/;

/** The parameters of a path that name an object with a place. */
const PLACED = /\{(?!provisionerkey\}|externalauth\}|roleName\}|notification_template\}|workspaceproxy\})\w+\}/;

async function call(key: RouteKey, caller: Caller, about: Things): Promise<string> {
  const { method, path, body, raw } = sampleRequest(key, about);
  const type = raw?.type ?? (body === undefined ? undefined : 'application/json');
  const response = await fetch(`${server.url}${apiPath(path)}`, {
    method,
    redirect: 'manual',
    headers: { 'Coder-Session-Token': caller.token, ...(type ? { 'content-type': type } : {}) },
    ...(raw ? { body: raw.data } : body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  // a stream has no end. Other answers are read, so that the connection can be used again
  if (isStream(key)) await response.body?.cancel();
  else await response.arrayBuffer();
  return response.ok ? 'ok' : response.status === 504 ? 'write' : String(response.status);
}

const isStream = (key: RouteKey) => (routes[key] as RouteDef).stream !== undefined;

/** The callers with each status, as one line. */
async function row(key: RouteKey, place: Place | '', asking: Caller[]): Promise<string> {
  const byStatus = new Map<string, string[]>();
  for (const caller of asking) {
    const about =
      place === '' || place === 'own' ? (ownThings.get(caller.role) ?? ownThings.get('owner')!) : things[place];
    const status = await call(key, caller, about);
    byStatus.set(status, [...(byStatus.get(status) ?? []), caller.role]);
  }
  const parts = [...byStatus].map(([status, roles]) =>
    byStatus.size === 1 ? `${status}: everyone` : `${status}: ${roles.join(' ')}`,
  );
  return [key, ...(place === '' ? [] : [place]), ...parts].join(' | ');
}

test('each route permits each role exactly what the checked-in table lists', async () => {
  const keys = (Object.keys(routes) as RouteKey[]).filter((key) => ['session', 'optional'].includes(routes[key].auth));
  const places = (key: RouteKey): readonly (Place | '')[] =>
    PLACED.test(key) || NAMING.test(JSON.stringify((routes[key] as RouteDef).body)) ? ['own', 'same', 'foreign'] : [''];
  const wanted = keys.flatMap((key) => places(key).map((place) => [key, place] as const));
  const lines: string[] = [];
  const ofTokens: string[] = [];
  const queue = wanted.entries();
  const work = async () => {
    for (const [at, [key, place]] of queue) {
      const asking = place === 'foreign' ? callers.filter(({ role }) => FOREIGN.includes(role)) : callers;
      lines[at] = await row(key, place, asking);
      // the limits of a token are the same in another organization
      if (place !== 'foreign') ofTokens[at] = `token | ${await row(key, place, limited)}`;
    }
  };
  await Promise.all(Array.from({ length: 8 }, work));
  lines.push(...ofTokens.filter(Boolean));
  assert.deepEqual(
    lines.filter((line) => line.includes('500: ')),
    [],
    'a request failed',
  );
  const path = join(import.meta.dirname, 'authz-routes.golden.txt');
  if (process.env['UPDATE_GOLDEN']) writeFileSync(path, `${lines.join('\n')}\n`);
  const listed = readFileSync(path, 'utf8').trimEnd().split('\n');
  const differences = [
    ...listed.filter((line) => !lines.includes(line)).map((line) => `- ${line}`),
    ...lines.filter((line) => !listed.includes(line)).map((line) => `+ ${line}`),
  ];
  assert.deepEqual(differences, [], 'review the change. If it is intended, run with UPDATE_GOLDEN=1');
});
