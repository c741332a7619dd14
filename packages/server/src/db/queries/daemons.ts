import type { SystemTask, VerifiedDaemon } from '../../authz/proofs.ts';
import type { Db, Tx } from '../connect.ts';
import type { KeyPlace } from './provisioner-keys.ts';

export interface DaemonRow {
  id: string;
  organization_id: string;
  name: string;
  key_id: string;
  credential: string;
  provisioners: string[];
  tags: Record<string, string>;
  version: string;
  api_version: string;
  /** Such as `terraform 1.11.4`. Empty for daemons that do not report them. */
  engines: string[];
  engine_versions: number[];
  last_seen_at: Date | null;
  created_at: Date;
}

/** Ids for the credentials without a key row. */
export const BUILT_IN_KEY_ID = '00000000-0000-0000-0000-000000000001';
export const USER_AUTH_KEY_ID = '00000000-0000-0000-0000-000000000002';
export const PSK_KEY_ID = '00000000-0000-0000-0000-000000000003';

/** A daemon that was not seen for this time, in ms, is stale. */
const STALE_MS = 90_000;

/**
 * Whether this daemon may be added under its credential, which has at most `most`. To make room, deletes offline
 * daemons without a running job, those seen longest ago first.
 */
export async function makeRoomForDaemon(
  db: Tx,
  { credential, name }: VerifiedDaemon<NewDaemon>,
  most: number,
): Promise<boolean> {
  // one at a time per credential: two concurrent counts would both take the last place
  await db`SELECT pg_advisory_xact_lock(hashtextextended(${credential}, 0))`;
  const [row] = await db<{ others: number }[]>`
    SELECT count(*) AS others FROM provisioner_daemons WHERE credential = ${credential} AND name <> ${name}`;
  const excess = row!.others + 1 - most;
  if (excess <= 0) return true;
  const { count } = await db`DELETE FROM provisioner_daemons WHERE id IN (
    SELECT d.id FROM provisioner_daemons d WHERE d.credential = ${credential} AND d.name <> ${name}
      AND ${isPresent(db)} IS NOT TRUE AND NOT EXISTS (SELECT 1 FROM provisioner_jobs j
        WHERE j.worker_id = d.id AND j.started_at IS NOT NULL AND j.completed_at IS NULL)
    ORDER BY d.last_seen_at LIMIT ${excess})`;
  return count === excess;
}

export type NewDaemon = Omit<DaemonRow, 'id' | 'created_at' | 'last_seen_at' | keyof Engines> & Partial<Engines>;

type Engines = Pick<DaemonRow, 'engines' | 'engine_versions'>;

/** Adds or updates the row of a daemon. The same organization, name, owner and credential keep the same id. */
export async function upsertDaemon(db: Db, daemon: VerifiedDaemon<NewDaemon>): Promise<DaemonRow> {
  const [row] = await db<DaemonRow[]>`
    INSERT INTO provisioner_daemons (organization_id, name, key_id, credential, provisioners, tags, version, api_version,
      engines, engine_versions, last_seen_at)
    VALUES (${daemon.organization_id}, ${daemon.name}, ${daemon.key_id}, ${daemon.credential}, ${daemon.provisioners},
      ${db.json(daemon.tags)}, ${daemon.version}, ${daemon.api_version}, ${daemon.engines ?? []}, ${daemon.engine_versions ?? []}, now())
    ON CONFLICT (organization_id, name, lower(coalesce(tags ->> 'owner', '')), credential) DO UPDATE SET
      provisioners = excluded.provisioners, tags = excluded.tags, version = excluded.version,
      api_version = excluded.api_version, engines = excluded.engines, engine_versions = excluded.engine_versions, key_id = excluded.key_id, last_seen_at = excluded.last_seen_at
    RETURNING *`;
  return row!;
}

/** A live connection of a daemon. */
export type LiveConnection = VerifiedDaemon<{ readonly daemonId: string; readonly connectionId: string }>;

/** A daemon that went offline longer ago than this, in ms, is online again if it has a live connection. */
const GONE_MS = 2_000;

/**
 * Records live connections. A daemon with a live connection is online, whatever its row says: the start of the
 * connection may not have been recorded, or another server may have recorded the end of the newest one.
 */
export async function touchDaemons(db: Db, live: LiveConnection[]): Promise<void> {
  if (live.length === 0) return;
  await db`UPDATE provisioner_daemons d SET last_seen_at = greatest(last_seen_at, now()),
      connection_id = CASE WHEN ${isBack(db)} THEN live.connection ELSE connection_id END,
      disconnected_at = CASE WHEN ${isBack(db)} THEN NULL ELSE disconnected_at END
    FROM unnest(${live.map(({ daemonId }) => daemonId)}::uuid[],
      ${live.map(({ connectionId }) => connectionId)}::uuid[]) AS live (daemon, connection)
    WHERE d.id = live.daemon`;
}

const isBack = (db: Db) => db`d.disconnected_at < now() - ${GONE_MS} * interval '1 millisecond'`;

/** Records that a connection of a daemon has begun. It is the newest one. */
export async function daemonConnected(db: Db, { daemonId, connectionId }: LiveConnection): Promise<void> {
  await db`UPDATE provisioner_daemons SET connection_id = ${connectionId}, disconnected_at = NULL, last_seen_at = now()
    WHERE id = ${daemonId}`;
}

/**
 * Records that a connection has ended. If it was the newest, the daemon is offline or continues with its `other` one.
 */
export async function daemonDisconnected(
  db: Db,
  { daemonId, connectionId }: LiveConnection,
  other?: LiveConnection,
): Promise<void> {
  await db`UPDATE provisioner_daemons SET last_seen_at = now(), connection_id = ${other?.connectionId ?? connectionId},
      disconnected_at = CASE WHEN ${other === undefined} THEN now() END
    WHERE id = ${daemonId} AND connection_id = ${connectionId}`;
}

/** Whether a daemon `d` is online, as SQL. */
const isPresent = (db: Db) =>
  db`(d.disconnected_at IS NULL AND d.last_seen_at > now() - ${STALE_MS} * interval '1 millisecond')`;

/** What a job needs of a daemon. */
export interface JobNeeds {
  organization_id: string;
  tags: Record<string, string>;
  /** The type of provisioner: `terraform` or `echo`. */
  provisioner: string;
  terraform_range: string | null;
}

export interface MatchCount {
  count: number;
  available: number;
  most_recently_seen: Date | null;
}

/** The number of daemons, known and online, that may run such a job. */
export async function countMatching(
  db: Db,
  { organization_id, tags, provisioner, terraform_range }: JobNeeds,
): Promise<MatchCount> {
  const [row] = await db<MatchCount[]>`
    SELECT count(*) AS count, count(*) FILTER (WHERE ${isPresent(db)}) AS available,
      max(last_seen_at) AS most_recently_seen
    FROM provisioner_daemons d WHERE organization_id = ${organization_id} AND provisioner_tags_match(tags, ${db.json(tags)})
      AND ${provisioner} = ANY(provisioners) AND terraform_matches(${terraform_range}::int8multirange, engine_versions)`;
  return row!;
}

/** The number of online daemons of an organization. */
export async function onlineDaemons(db: Db, organizationId: string): Promise<number> {
  const [row] = await db<{ count: number }[]>`SELECT count(*) AS count FROM provisioner_daemons d
    WHERE organization_id = ${organizationId} AND ${isPresent(db)}`;
  return row!.count;
}

export type DaemonStatus = 'offline' | 'idle' | 'busy';

/** The status of the daemon in row `d`, as SQL. */
export const daemonStatus = (db: Db) => db`CASE
  WHEN ${isPresent(db)} IS NOT TRUE THEN 'offline'
  WHEN EXISTS (SELECT 1 FROM provisioner_jobs j
    WHERE j.worker_id = d.id AND j.started_at IS NOT NULL AND j.completed_at IS NULL) THEN 'busy'
  ELSE 'idle' END`;

/** Daemons of one organization with the same tags, types and engines. */
export interface DaemonGroup {
  organization_id: string;
  tags: Record<string, string>;
  provisioners: string[];
  engines: string[];
  count: number;
  /** Online. */
  available: number;
  /** Online and without a job. */
  idle: number;
  most_recently_seen: Date | null;
  /** The name of one of them, an online one if possible. */
  name: string;
}

export async function daemonGroups(db: Db): Promise<DaemonGroup[]> {
  return db<DaemonGroup[]>`
    SELECT organization_id, tags, provisioners, engines, count(*) AS count,
      count(*) FILTER (WHERE status <> 'offline') AS available, count(*) FILTER (WHERE status = 'idle') AS idle,
      max(last_seen_at) AS most_recently_seen,
      coalesce(min(name) FILTER (WHERE status <> 'offline'), min(name)) AS name
    FROM (SELECT d.*, ${daemonStatus(db)} AS status FROM provisioner_daemons d) known
    GROUP BY organization_id, tags, provisioners, engines`;
}

export interface ListFilter {
  /** Null does not filter. */
  ids: string[] | null;
  statuses: string[] | null;
  tags: Record<string, string> | null;
  limit: number;
}

export interface DaemonFilter extends ListFilter {
  /** The longest time since the daemon was seen, in ms. */
  maxAgeMs: number | null;
}

export type ListedDaemon = DaemonRow & { status: DaemonStatus; key_name: string | null };

/** An organization's daemons, newest first. */
export async function daemonsOf(db: Db, organizationId: string, filter: DaemonFilter): Promise<ListedDaemon[]> {
  const tags = filter.tags === null ? null : db.json(filter.tags);
  return db<ListedDaemon[]>`
    SELECT * FROM (
      SELECT d.*, k.name AS key_name, ${daemonStatus(db)} AS status
      FROM provisioner_daemons d LEFT JOIN provisioner_keys k ON k.id = d.key_id
      WHERE d.organization_id = ${organizationId}) found
    WHERE (${filter.ids}::uuid[] IS NULL OR id = ANY(${filter.ids}::uuid[]))
      AND (${filter.statuses}::text[] IS NULL OR status = ANY(${filter.statuses}::text[]))
      AND (${tags}::jsonb IS NULL OR provisioner_tags_match(tags, ${tags}::jsonb))
      AND (${filter.maxAgeMs}::float8 IS NULL
        OR last_seen_at >= now() - ${filter.maxAgeMs}::float8 * interval '1 millisecond')
    ORDER BY created_at DESC, id LIMIT ${filter.limit}`;
}

/** An organization's daemons. User-scoped ones are included for their owner, or with `all`. */
export async function daemonsVisibleTo(
  db: Db,
  organizationId: string,
  { all, userId }: { all: boolean; userId: string },
): Promise<(DaemonRow & { status: DaemonStatus })[]> {
  return db<(DaemonRow & { status: DaemonStatus })[]>`
    SELECT d.*, ${daemonStatus(db)} AS status FROM provisioner_daemons d WHERE d.organization_id = ${organizationId}
      AND (${all} OR d.tags ->> 'scope' IS DISTINCT FROM 'user' OR d.tags ->> 'owner' = ${userId})`;
}

/** Ids of the organization's daemons that were seen within this time, newest first. */
export async function recentDaemons(db: Db, organizationId: string, withinMs: number): Promise<string[]> {
  const rows = await db<{ id: string }[]>`SELECT id FROM provisioner_daemons
    WHERE organization_id = ${organizationId} AND last_seen_at > now() - ${withinMs} * interval '1 millisecond'
    ORDER BY created_at DESC, id`;
  return rows.map(({ id }) => id);
}

/** Deletes the daemons of a key that have no running job. */
export async function deleteIdleDaemonsOfKey(
  tx: Tx,
  { organizationId }: KeyPlace<'delete'>,
  keyId: string,
): Promise<void> {
  await tx`DELETE FROM provisioner_daemons d WHERE key_id = ${keyId} AND organization_id = ${organizationId}
    AND NOT EXISTS (SELECT 1 FROM provisioner_jobs j
      WHERE j.worker_id = d.id AND j.started_at IS NOT NULL AND j.completed_at IS NULL)`;
}

/**
 * Deletes daemons that were not seen for this many days (or created that long ago and never seen) and those whose key
 * was deleted. A daemon with a running job stays until the job ends, so that the job still names its daemon. Returns
 * how many it deleted.
 */
export async function deleteUnseenDaemons(db: Db, _task: SystemTask, days: number): Promise<number> {
  const { count } = await db`DELETE FROM provisioner_daemons d
    WHERE (coalesce(last_seen_at, created_at) < now() - ${days} * interval '1 day'
        OR (key_id <> ALL(${[BUILT_IN_KEY_ID, USER_AUTH_KEY_ID, PSK_KEY_ID]}::uuid[])
          AND NOT EXISTS (SELECT 1 FROM provisioner_keys k WHERE k.id = d.key_id)))
      AND NOT EXISTS (SELECT 1 FROM provisioner_jobs j
        WHERE j.worker_id = d.id AND j.started_at IS NOT NULL AND j.completed_at IS NULL)`;
  return count;
}
