import type { Allowed } from '../../authz/authorize.ts';
import type { SystemTask, VerifiedToken } from '../../authz/proofs.ts';
import type { Db, Sql, Tx } from '../connect.ts';
import type { UserRow } from '../rows.ts';
import { IS_RESTARTED } from './restarts.ts';

export type Method = 'smtp' | 'webhook' | 'inbox';

export interface NewMessages {
  templateId: string;
  userIds: readonly string[];
  methods: readonly Method[];
  labels: Readonly<Record<string, string>>;
  targets: readonly string[];
  event: string;
  /** Whether people without a preference get it. */
  enabledByDefault: boolean;
  /** Whether preferences do not count. */
  required: boolean;
  /** Where a mail goes. Undefined: to the person's address at the time of sending. */
  address?: string | undefined;
}

/**
 * Adds a message to each of these people by each method, unless they switched the template off, were deleted, have no
 * address, or got this event already. Suspended people get messages: one of them says that they were suspended. Returns how many were added.
 */
export async function insertMessages(db: Db, _by: SystemTask, message: NewMessages): Promise<number> {
  const { templateId, userIds, methods, labels, targets, event, enabledByDefault, required, address } = message;
  const { count } =
    await db`INSERT INTO notification_messages (template_id, user_id, method, labels, targets, event, address)
    SELECT ${templateId}, u.id, m.method, ${db.json(labels)}, ${[...targets]}::text[]::uuid[], ${event}, ${address ?? null}
    FROM users u CROSS JOIN unnest(${[...methods]}::text[]) AS m (method)
    LEFT JOIN notification_preferences p ON p.user_id = u.id AND p.template_id = ${templateId}
    WHERE u.id = ANY (${[...userIds]}::text[]::uuid[]) AND NOT u.deleted AND NOT u.is_system
      AND NOT (u.is_service_account AND m.method = 'smtp')
      AND (${required} OR NOT coalesce(p.disabled, NOT ${enabledByDefault}))
    ON CONFLICT DO NOTHING`;
  return count;
}

export interface LeasedMessage {
  id: string;
  template_id: string;
  targets: string[];
  labels: Record<string, string>;
  attempts: number;
  lease: string;
  user_id: string;
  username: string;
  name: string;
  email: string;
  created_at: Date;
}

/** Takes due messages of a method for a while: those that wait, and those whose server died. */
export async function leaseMessages(
  sql: Sql,
  _by: SystemTask,
  { method, most, leaseMs }: { method: Method; most: number; leaseMs: number },
): Promise<LeasedMessage[]> {
  return sql<LeasedMessage[]>`WITH due AS (
      SELECT id FROM notification_messages
      WHERE method = ${method} AND status IN ('pending', 'leased') AND next_attempt_at <= now()
      ORDER BY next_attempt_at LIMIT ${most} FOR UPDATE SKIP LOCKED)
    UPDATE notification_messages m SET status = 'leased', attempts = m.attempts + 1, lease = gen_random_uuid(),
      next_attempt_at = now() + ${leaseMs} * interval '1 millisecond', updated_at = now()
    FROM due, users u WHERE m.id = due.id AND u.id = m.user_id
    RETURNING m.id, m.template_id, m.targets, m.labels, m.attempts, m.lease, m.created_at, m.user_id, u.username, u.name,
      coalesce(m.address, u.email) AS email`;
}

/** When the next message of a method is due, in ms. Undefined if none waits. */
export async function nextMessageMs(db: Db, method: Method): Promise<number | undefined> {
  const [row] = await db<{ ms: number | null }[]>`
    SELECT (extract(epoch FROM min(next_attempt_at) - now()) * 1000)::float8 AS ms FROM notification_messages
    WHERE method = ${method} AND status IN ('pending', 'leased')`;
  return row?.ms ?? undefined;
}

/** Ends a message that was sent. False if the lease ended and another server took it. */
export async function markSent(db: Db, _by: SystemTask, { id, lease }: LeasedMessage): Promise<boolean> {
  const { count } = await db`UPDATE notification_messages SET status = 'sent', labels = '{}', last_error = '',
    updated_at = now() WHERE id = ${id} AND lease = ${lease}`;
  return count > 0;
}

/** Notes that an attempt failed. Without `retryMs` it was the last one. */
export async function markFailed(
  db: Db,
  _by: SystemTask,
  { id, lease }: LeasedMessage,
  { error, retryMs }: { error: string; retryMs: number | undefined },
): Promise<void> {
  await db`UPDATE notification_messages SET status = ${retryMs === undefined ? 'failed' : 'pending'},
    next_attempt_at = now() + ${retryMs ?? 0} * interval '1 millisecond', last_error = ${error}, updated_at = now(),
    labels = CASE WHEN ${retryMs === undefined} THEN '{}' ELSE labels END
    WHERE id = ${id} AND lease = ${lease}`;
}

/** Deletes at most this many messages that ended before. Returns how many it deleted. */
export async function purgeMessages(
  db: Db,
  _by: SystemTask,
  { before, most }: { before: Date; most: number },
): Promise<number> {
  const { count } = await db`DELETE FROM notification_messages WHERE id = ANY (ARRAY(
    SELECT id FROM notification_messages WHERE status IN ('sent', 'failed') AND updated_at < ${before}
    ORDER BY updated_at LIMIT ${most}))`;
  return count;
}

export interface InboxRow {
  id: string;
  user_id: string;
  template_id: string;
  targets: string[];
  title: string;
  content: string;
  icon: string;
  actions: { label: string; url: string }[];
  read_at: Date | null;
  created_at: Date;
}

/** The maximum number of notifications in a person's inbox. Adding one more deletes the oldest. */
const MAX_IN_INBOX = 500;

/** Moves a message to its person's inbox, in one step: it appears there exactly once. */
export async function deliverToInbox(
  tx: Tx,
  by: SystemTask,
  message: LeasedMessage,
  { title, body, actions, icon }: { title: string; body: string; actions: InboxRow['actions']; icon: string },
): Promise<boolean> {
  if (!(await markSent(tx, by, message))) return false;
  const { id, user_id, template_id, targets } = message;
  await tx`INSERT INTO inbox_notifications (id, user_id, template_id, targets, title, content, icon, actions)
    VALUES (${id}, ${user_id}, ${template_id}, ${targets}::text[]::uuid[], ${title}, ${body}, ${icon}, ${tx.json(actions)})`;
  await tx`DELETE FROM inbox_notifications WHERE id IN (SELECT id FROM inbox_notifications
    WHERE user_id = ${user_id} ORDER BY created_at DESC, id DESC OFFSET ${MAX_IN_INBOX})`;
  return true;
}

export interface InboxFilter {
  targets: string[];
  templates: string[];
  read: boolean | undefined;
}

const inboxConditions = (db: Db, userId: string, { targets, templates, read }: InboxFilter) => db`user_id = ${userId}
  ${targets.length > 0 ? db`AND targets @> ${targets}::text[]::uuid[]` : db``}
  ${templates.length > 0 ? db`AND template_id = ANY (${templates}::text[]::uuid[])` : db``}
  ${read === undefined ? db`` : read ? db`AND read_at IS NOT NULL` : db`AND read_at IS NULL`}`;

/** The newest notifications of a person, before one of them if it is given. */
export async function inboxPage(
  db: Db,
  userId: string,
  filter: InboxFilter,
  { before, limit }: { before?: string | undefined; limit: number },
): Promise<InboxRow[]> {
  return db<InboxRow[]>`SELECT * FROM inbox_notifications WHERE ${inboxConditions(db, userId, filter)}
    ${
      before
        ? db`AND (created_at, id) < (SELECT b.created_at, b.id FROM inbox_notifications b
            WHERE b.id = ${before} AND b.user_id = ${userId})`
        : db``
    }
    ORDER BY created_at DESC, id DESC LIMIT ${limit}`;
}

/** The notifications of a person that came after one of them, oldest first. */
export async function inboxAfter(
  db: Db,
  userId: string,
  filter: InboxFilter,
  last: { id: string } | undefined,
  since: Date,
): Promise<InboxRow[]> {
  return db<InboxRow[]>`SELECT * FROM inbox_notifications WHERE ${inboxConditions(db, userId, filter)}
    AND ${
      last
        ? db`(created_at, id) > (SELECT b.created_at, b.id FROM inbox_notifications b WHERE b.id = ${last.id})`
        : db`created_at > ${since}`
    }
    ORDER BY created_at, id LIMIT 100`;
}

export async function countUnread(db: Db, userId: string): Promise<number> {
  const [row] = await db<{ count: number }[]>`SELECT count(*) AS count FROM inbox_notifications
    WHERE user_id = ${userId} AND read_at IS NULL`;
  return row!.count;
}

/** Whether a person has this notification. */
export async function isInInbox(db: Db, userId: string, id: string): Promise<boolean> {
  const rows = await db`SELECT FROM inbox_notifications WHERE id = ${id} AND user_id = ${userId}`;
  return rows.length > 0;
}

/** Marks a notification of the person who asks as read or unread. */
export async function setRead(
  tx: Tx,
  { userId }: VerifiedToken,
  id: string,
  read: boolean,
): Promise<InboxRow | undefined> {
  const [row] = await tx<
    InboxRow[]
  >`UPDATE inbox_notifications SET read_at = CASE WHEN ${read} THEN coalesce(read_at, now()) END
    WHERE id = ${id} AND user_id = ${userId} RETURNING *`;
  return row;
}

export async function setAllRead(tx: Tx, { userId }: VerifiedToken): Promise<void> {
  await tx`UPDATE inbox_notifications SET read_at = now() WHERE user_id = ${userId} AND read_at IS NULL`;
}

export interface PreferenceRow {
  template_id: string;
  disabled: boolean;
  updated_at: Date;
}

export async function preferencesOf(db: Db, userId: string): Promise<PreferenceRow[]> {
  return db<PreferenceRow[]>`SELECT template_id, disabled, updated_at FROM notification_preferences
    WHERE user_id = ${userId} ORDER BY template_id`;
}

export async function setPreferences(
  db: Db,
  user: Allowed<'update_personal', UserRow>,
  preferences: readonly { templateId: string; disabled: boolean }[],
): Promise<void> {
  await db`INSERT INTO notification_preferences (user_id, template_id, disabled)
    SELECT ${user.id}, t.* FROM unnest(${preferences.map((each) => each.templateId)}::text[]::uuid[],
      ${preferences.map((each) => String(each.disabled))}::text[]::boolean[]) AS t
    ON CONFLICT (user_id, template_id) DO UPDATE SET disabled = excluded.disabled, updated_at = now()`;
}

/** The methods that administrators chose, by template. */
export async function templateMethods(db: Db): Promise<Map<string, Method>> {
  const rows = await db<
    { template_id: string; method: Method }[]
  >`SELECT template_id, method FROM notification_template_methods`;
  return new Map(rows.map((row) => [row.template_id, row.method]));
}

/** Sets the method of a template. Undefined: the deployment's default. */
export async function setTemplateMethod(
  db: Db,
  _by: Allowed<'update', { type: 'deployment_config' }>,
  templateId: string,
  method: Method | undefined,
): Promise<void> {
  if (method === undefined) await db`DELETE FROM notification_template_methods WHERE template_id = ${templateId}`;
  else {
    await db`INSERT INTO notification_template_methods (template_id, method) VALUES (${templateId}, ${method})
      ON CONFLICT (template_id) DO UPDATE SET method = excluded.method`;
  }
}

/** The people with one of these site roles. */
export async function peopleWithRoles(db: Db, roles: readonly string[]): Promise<string[]> {
  const rows = await db<{ id: string }[]>`SELECT id FROM users
    WHERE NOT deleted AND NOT is_system AND status <> 'suspended' AND rbac_roles && ${[...roles]}::text[]`;
  return rows.map(({ id }) => id);
}

/** The people who may administer the templates of an organization, by a site role or one in it. */
export async function templateAdmins(db: Db, organizationId: string): Promise<string[]> {
  const rows = await db<{ id: string }[]>`SELECT u.id FROM users u
    LEFT JOIN organization_members m ON m.user_id = u.id AND m.organization_id = ${organizationId}
    LEFT JOIN organizations o ON o.id = m.organization_id
    WHERE NOT u.deleted AND NOT u.is_system AND u.status <> 'suspended'
      AND ('template-admin' = ANY (u.rbac_roles)
        OR 'organization-template-admin' = ANY (m.roles || o.default_org_member_roles))`;
  return rows.map(({ id }) => id);
}

/** The owners of workspaces of a template. */
export async function workspaceOwnersOf(db: Db, templateId: string): Promise<string[]> {
  const rows = await db<{ owner_id: string }[]>`SELECT DISTINCT owner_id FROM workspaces
    WHERE template_id = ${templateId} AND NOT deleted`;
  return rows.map(({ owner_id }) => owner_id);
}

/** What notifications say about a build. */
export interface NotedBuild {
  id: string;
  build_number: number;
  transition: 'start' | 'stop' | 'delete';
  reason: string;
  initiator_id: string;
  initiator: string;
  workspace_id: string;
  workspace: string;
  owner_id: string;
  owner: string;
  organization_id: string;
  template_id: string;
  template: string;
  version: string;
  version_message: string;
  /** The builds and attempts of the workspace that failed in a row. */
  failed_attempts: number;
  /** Whether a start is to follow: it is the stop of a restart. */
  restarts: boolean;
}

export async function notedBuild(db: Db, buildId: string): Promise<NotedBuild | undefined> {
  const [row] = await db<NotedBuild[]>`SELECT b.id, b.build_number, b.transition, b.reason, b.initiator_id,
      i.username AS initiator, w.id AS workspace_id, w.name AS workspace, w.owner_id, u.username AS owner,
      w.organization_id, t.id AS template_id, t.name AS template, v.name AS version, v.message AS version_message,
      w.automatic_attempts AS failed_attempts,
      ${db.unsafe(IS_RESTARTED)} AS restarts
    FROM workspace_builds b JOIN workspaces w ON w.id = b.workspace_id JOIN users u ON u.id = w.owner_id
    JOIN users i ON i.id = b.initiator_id JOIN templates t ON t.id = w.template_id
    JOIN template_versions v ON v.id = b.template_version_id WHERE b.id = ${buildId}`;
  return row;
}

export interface FailedBuilds {
  id: string;
  name: string;
  organization_id: string;
  count: number;
}

/** The templates with failed builds since a time, and how many. */
export async function failedBuildsSince(db: Db, since: Date): Promise<FailedBuilds[]> {
  return db<FailedBuilds[]>`SELECT t.id, t.name, t.organization_id, count(*) AS count
    FROM provisioner_jobs j JOIN workspace_builds b ON b.job_id = j.id JOIN workspaces w ON w.id = b.workspace_id
    JOIN templates t ON t.id = w.template_id AND NOT t.deleted
    WHERE j.job_status = 'failed' AND j.type = 'workspace_build' AND j.completed_at >= ${since}
    GROUP BY t.id ORDER BY t.id`;
}
