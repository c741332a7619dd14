// Permissions of a large company: what authorizing one request costs for a member of many groups and organizations, and
// the list of templates for a member, when each template has its own permissions.
import type { Template } from '@ropewalk/contract';
import { createSessions } from '@ropewalk/server/app/context/session';
import { authorize, readScope } from '@ropewalk/server/authz/authorize';
import { createTestTemplate, insertPerson, startTestServer, type TestServer } from '@ropewalk/testkit';
import { median, type Row } from './measure.ts';

const ORGANIZATIONS = 20;
const GROUPS_EACH = 10;
const TEMPLATES = 1_000;
/** Groups and people with a permission on each template. */
const LISTED = 20;
const ROUNDS = 20;
const REQUESTS = 2_000;
const WARM_UP = 10;
const SAMPLES = 100;
const REACH_US = 50;
const REACH_LIST_MS = 50;

type Person = Awaited<ReturnType<typeof insertPerson>>;

/** A member of 20 organizations, with 10 groups and a custom role in each. */
async function insertMember(server: TestServer): Promise<Person> {
  const { sql } = server.services;
  const person = await insertPerson(server, 'member');
  await sql`INSERT INTO organizations (name) SELECT 'team-' || n FROM generate_series(2, ${ORGANIZATIONS}) n`;
  await sql`INSERT INTO custom_roles (organization_id, name, permissions)
    SELECT id, 'reader', '{"template": ["read"], "workspace": ["read"], "audit_log": ["read"]}' FROM organizations
    WHERE NOT is_default`;
  await sql`INSERT INTO organization_members (organization_id, user_id, roles)
    SELECT id, ${person.id}, '{reader}' FROM organizations WHERE NOT is_default`;
  await sql`INSERT INTO groups (organization_id, name)
    SELECT o.id, 'group-' || n FROM organizations o, generate_series(1, ${GROUPS_EACH}) n`;
  await sql`INSERT INTO group_members (group_id, organization_id, user_id)
    SELECT id, organization_id, ${person.id} FROM groups WHERE id <> organization_id`;
  return person;
}

/**
 * Templates with permissions for groups and people. The member may use each of them: as a member of the last listed
 * group.
 */
async function fillTemplates(server: TestServer, person: Person): Promise<void> {
  const { sql } = server.services;
  const base = await createTestTemplate(server, 'base');
  await sql`UPDATE templates SET name = 'template-1' WHERE id = ${base.id}`;
  await sql.begin(async (tx) => {
    await tx`CREATE TEMPORARY TABLE made ON COMMIT DROP AS SELECT n, gen_random_uuid() AS template,
      gen_random_uuid() AS version, gen_random_uuid() AS job FROM generate_series(2, ${TEMPLATES}) n`;
    await tx`INSERT INTO provisioner_jobs (id, organization_id, initiator_id, type, file_id, input, started_at, completed_at)
      SELECT m.job, j.organization_id, j.initiator_id, j.type, j.file_id, j.input, now(), now()
      FROM made m, provisioner_jobs j JOIN template_versions v ON v.job_id = j.id WHERE v.id = ${base.active_version_id}`;
    await tx`INSERT INTO templates (id, organization_id, name, display_name, description, active_version_id, created_by)
      SELECT m.template, t.organization_id, 'template-' || m.n, 'Template ' || m.n, 'For the team ' || m.n, m.version,
        t.created_by FROM made m, templates t WHERE t.id = ${base.id}`;
    await tx`INSERT INTO template_versions (id, template_id, organization_id, name, job_id, created_by)
      SELECT m.version, m.template, t.organization_id, 'v1', m.job, t.created_by
      FROM made m, templates t WHERE t.id = ${base.id}`;
  });
  await sql`INSERT INTO workspaces (owner_id, organization_id, template_id, name)
    SELECT ${person.id}, organization_id, id, name FROM templates`;
  const strangers = (count: number) =>
    sql`(SELECT jsonb_object_agg(gen_random_uuid(), 'use') FROM generate_series(1, ${count}))`;
  await sql`UPDATE templates t SET user_acl = ${strangers(LISTED)}, group_acl = ${strangers(LISTED - 1)} ||
    jsonb_build_object((SELECT g.id FROM groups g JOIN group_members m ON m.group_id = g.id
      WHERE g.organization_id = t.organization_id ORDER BY hashtext(t.name || g.name) LIMIT 1), 'use')`;
  await sql`VACUUM ANALYZE`;
}

/** A request's work before its rule: who asks, and whether they may. */
async function benchRequest(server: TestServer, { token }: Person): Promise<Row> {
  const sessions = createSessions(server.services);
  try {
    const { actor } = await sessions.verify(token);
    const [template] = await server.services.sql<
      { organization_id: string; user_acl: Record<string, string>; group_acl: Record<string, string> }[]
    >`SELECT organization_id, user_acl, group_acl FROM templates LIMIT 1`;
    const { organization_id: organizationId, user_acl: users, group_acl: groups } = template!;
    const object = { type: 'template', organizationId, acl: { users, groups } } as const;
    const request = async () => {
      const session = await sessions.verify(token);
      authorize(session, 'use', object);
      readScope(session.actor, 'workspace');
    };
    const took: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const started = performance.now();
      for (let i = 0; i < REQUESTS; i++) await request();
      took.push(((performance.now() - started) / REQUESTS) * 1_000);
    }
    const us = median(took);
    return {
      what: `authorization of a request, for a member of ${actor.groups.size} groups and ${actor.organizations.size} organizations`,
      ours: `${us.toFixed(1)} µs`,
      floor: '',
      figure: `${us.toFixed(1)} µs`,
      reach: `≤ ${REACH_US} µs`,
      met: us <= REACH_US,
    };
  } finally {
    sessions.close();
  }
}

async function benchList(server: TestServer, { token }: Person): Promise<Row> {
  const took: number[] = [];
  for (let i = 0; i < WARM_UP + SAMPLES; i++) {
    const started = performance.now();
    const response = await fetch(`${server.url}/api/v2/templates`, { headers: { 'Coder-Session-Token': token } });
    const bytes = await response.arrayBuffer();
    if (i >= WARM_UP) took.push(performance.now() - started);
    const { length } = i === 0 ? (JSON.parse(Buffer.from(bytes).toString()) as Template[]) : { length: TEMPLATES };
    if (length !== TEMPLATES) throw new Error(`the list has ${length} templates`);
  }
  took.sort((a, b) => a - b);
  const p95 = took[Math.floor(took.length * 0.95)]!;
  return {
    what: `GET /templates for a member, ${TEMPLATES} templates with permissions, p95`,
    ours: `${p95.toFixed(0)} ms`,
    floor: '',
    figure: `${p95.toFixed(0)} ms`,
    reach: `≤ ${REACH_LIST_MS} ms`,
    met: p95 <= REACH_LIST_MS,
  };
}

export async function benchAuthorization(): Promise<Row[]> {
  const server = await startTestServer();
  try {
    const person = await insertMember(server);
    await fillTemplates(server, person);
    return [await benchRequest(server, person), await benchList(server, person)];
  } finally {
    await server.stop();
  }
}
