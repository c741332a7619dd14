import type { Allowed } from '../../authz/authorize.ts';
import type { VerifiedProxy } from '../../authz/proofs.ts';
import type { Db, Tx } from '../connect.ts';
import type { WorkspaceProxyRow } from '../rows.ts';

const COLUMNS = (db: Db) => db`id, name, display_name, icon, region_id, url, wildcard_hostname, derp_enabled, derp_only,
  version, created_at, updated_at`;

/** Oldest first. */
export async function allWorkspaceProxies(db: Db): Promise<WorkspaceProxyRow[]> {
  return db<WorkspaceProxyRow[]>`SELECT ${COLUMNS(db)} FROM workspace_proxies WHERE NOT deleted
    ORDER BY created_at, id`;
}

export async function workspaceProxyById(db: Db, id: string): Promise<WorkspaceProxyRow | undefined> {
  const [row] = await db<WorkspaceProxyRow[]>`SELECT ${COLUMNS(db)} FROM workspace_proxies
    WHERE id = ${id} AND NOT deleted`;
  return row;
}

export async function workspaceProxyByName(db: Db, name: string): Promise<WorkspaceProxyRow | undefined> {
  const [row] = await db<WorkspaceProxyRow[]>`SELECT ${COLUMNS(db)} FROM workspace_proxies
    WHERE lower(name) = lower(${name}) AND NOT deleted`;
  return row;
}

/** A proxy with the hash of its secret, to verify its token. */
export async function workspaceProxyWithSecret(
  db: Db,
  id: string,
): Promise<(WorkspaceProxyRow & { hashed_secret: Buffer }) | undefined> {
  const [row] = await db<(WorkspaceProxyRow & { hashed_secret: Buffer })[]>`SELECT ${COLUMNS(db)}, hashed_secret
    FROM workspace_proxies WHERE id = ${id} AND NOT deleted`;
  return row;
}

export async function countWorkspaceProxies(tx: Tx): Promise<number> {
  const [row] = await tx<{ count: number }[]>`SELECT count(*)::integer AS count FROM workspace_proxies
    WHERE NOT deleted`;
  return row!.count;
}

type Fields = Pick<WorkspaceProxyRow, 'name' | 'display_name' | 'icon'>;

export async function insertWorkspaceProxy(
  tx: Tx,
  _by: Allowed<'create', { type: 'workspace_proxy' }>,
  proxy: Fields & { id: string; hashed_secret: Buffer },
): Promise<WorkspaceProxyRow> {
  const [row] = await tx<
    WorkspaceProxyRow[]
  >`INSERT INTO workspace_proxies (id, name, display_name, icon, hashed_secret)
    VALUES (${proxy.id}, ${proxy.name}, ${proxy.display_name}, ${proxy.icon}, ${proxy.hashed_secret})
    RETURNING ${COLUMNS(tx)}`;
  return row!;
}

/** Changes a proxy, and replaces the hash of its secret if there is a new one. Undefined: it was deleted. */
export async function updateWorkspaceProxy(
  tx: Tx,
  { id }: Allowed<'update', WorkspaceProxyRow>,
  proxy: Fields,
  hashedSecret: Buffer | undefined,
): Promise<WorkspaceProxyRow | undefined> {
  const [row] = await tx<WorkspaceProxyRow[]>`UPDATE workspace_proxies SET name = ${proxy.name},
      display_name = ${proxy.display_name}, icon = ${proxy.icon},
      hashed_secret = coalesce(${hashedSecret ?? null}::bytea, hashed_secret), updated_at = now()
    WHERE id = ${id} AND NOT deleted RETURNING ${COLUMNS(tx)}`;
  return row;
}

/** For how long the rows of deleted proxies stay, in days. */
const DELETED_DAYS = 30;

/** Deletes a proxy with its processes. Its row stays for a while, and no token is valid for it. */
export async function deleteWorkspaceProxy(tx: Tx, { id }: Allowed<'delete', WorkspaceProxyRow>): Promise<boolean> {
  const { count } = await tx`UPDATE workspace_proxies SET deleted = true, hashed_secret = ''::bytea, updated_at = now()
    WHERE id = ${id} AND NOT deleted`;
  await tx`DELETE FROM workspace_proxy_replicas WHERE proxy_id = ${id}`;
  await tx`DELETE FROM workspace_proxies
    WHERE deleted AND updated_at < now() - ${DELETED_DAYS} * interval '1 day'`;
  return count > 0;
}

/** Stores what a proxy registers. Returns whether it changed. Undefined: the proxy was deleted. */
export async function registerWorkspaceProxy(
  tx: Tx,
  { id }: VerifiedProxy,
  given: Pick<WorkspaceProxyRow, 'url' | 'wildcard_hostname' | 'derp_enabled' | 'derp_only' | 'version'>,
): Promise<boolean | undefined> {
  // a deletion waits, and the other registrations of this proxy
  const [before] = await tx<WorkspaceProxyRow[]>`SELECT ${COLUMNS(tx)} FROM workspace_proxies
    WHERE id = ${id} AND NOT deleted FOR NO KEY UPDATE`;
  if (!before) return undefined;
  const { url, wildcard_hostname, derp_enabled, derp_only, version } = given;
  const isSame =
    before.url === url &&
    before.wildcard_hostname === wildcard_hostname &&
    before.derp_enabled === derp_enabled &&
    before.derp_only === derp_only &&
    before.version === version;
  if (isSame) return false;
  await tx`UPDATE workspace_proxies SET url = ${url}, wildcard_hostname = ${wildcard_hostname},
      derp_enabled = ${derp_enabled}, derp_only = ${derp_only}, version = ${version}, updated_at = now()
    WHERE id = ${id}`;
  return true;
}

/** A process of a proxy. */
export interface ProxyReplicaRow {
  proxy_id: string;
  id: string;
  hostname: string;
  relay_address: string;
  version: string;
  /** Why it does not reach the other processes of its proxy. Empty if it does. */
  problem: string;
  started_at: Date;
  seen_at: Date;
}

/** After this time without a registration, in seconds, a process counts as gone. It registers every 30 s. */
const GONE_SECONDS = 75;
/** How long the row of a process stays, in hours. Within it, a process that has ended cannot register again. */
const KEPT_HOURS = 1;

/**
 * The processes of all proxies, or of one, that have registered lately, and whose connection to a server has not ended since.
 * The one that started first is first.
 */
export async function liveProxyReplicas(db: Db, proxyId?: string): Promise<ProxyReplicaRow[]> {
  return db<ProxyReplicaRow[]>`SELECT proxy_id, id, hostname, relay_address, version, problem, started_at, seen_at
    FROM workspace_proxy_replicas WHERE stopped_at IS NULL AND seen_at > now() - ${GONE_SECONDS} * interval '1 second'
      AND lost_at IS NULL
      AND (${proxyId ?? null}::uuid IS NULL OR proxy_id = ${proxyId ?? null})
    ORDER BY started_at, id`;
}

/** When each proxy last had a process that registered, by the id of the proxy. */
export async function proxiesSeenAt(db: Db): Promise<ReadonlyMap<string, Date>> {
  const rows = await db<{ proxy_id: string; seen_at: Date }[]>`SELECT proxy_id, max(seen_at) AS seen_at
    FROM workspace_proxy_replicas GROUP BY proxy_id`;
  return new Map(rows.map(({ proxy_id: id, seen_at: at }) => [id, at]));
}

/**
 * Adds a process, or repeats its sign of life. The caller holds the proxy's row, so that `most` is exact.
 * @returns `added` for a new process or one that counted as gone, `full` if the proxy has `most` others, `stopped` if the process has ended
 */
export async function keepProxyReplica(
  tx: Tx,
  { id: proxyId }: VerifiedProxy,
  replica: Pick<ProxyReplicaRow, 'id' | 'hostname' | 'relay_address' | 'version' | 'problem'>,
  most: number,
): Promise<'added' | 'kept' | 'full' | 'stopped'> {
  await tx`DELETE FROM workspace_proxy_replicas
    WHERE proxy_id = ${proxyId} AND seen_at < now() - ${KEPT_HOURS} * interval '1 hour'`;
  const rows = await tx<{ id: string; stopped: boolean; lost: boolean }[]>`SELECT id, stopped_at IS NOT NULL AS stopped,
      lost_at IS NOT NULL AS lost FROM workspace_proxy_replicas WHERE proxy_id = ${proxyId}`;
  const own = rows.find(({ id }) => id === replica.id);
  if (own?.stopped) return 'stopped';
  if (!own && rows.length >= most) return 'full';
  const { id, hostname, relay_address, version, problem } = replica;
  await tx`INSERT INTO workspace_proxy_replicas (proxy_id, id, hostname, relay_address, version, problem)
    VALUES (${proxyId}, ${id}, ${hostname}, ${relay_address}, ${version}, ${problem})
    ON CONFLICT (proxy_id, id) DO UPDATE SET hostname = excluded.hostname, relay_address = excluded.relay_address,
      version = excluded.version, problem = excluded.problem, seen_at = now(), lost_at = NULL`;
  return own && !own.lost ? 'kept' : 'added';
}

/**
 * Records that the connection of a process to a server has ended, which was last in use `silentMs` ago. Until the process
 * registers again, it counts as gone. False: it has registered since, has ended, or the proxy has no such process.
 */
export async function loseProxyReplica(
  db: Db,
  { id: proxyId }: VerifiedProxy,
  { id, silentMs }: { id: string; silentMs: number },
): Promise<boolean> {
  const { count } = await db`UPDATE workspace_proxy_replicas
    SET lost_at = now()
    WHERE proxy_id = ${proxyId} AND id = ${id} AND stopped_at IS NULL
      AND seen_at <= now() - ${silentMs / 1_000} * interval '1 second'`;
  return count > 0;
}

/** Records the end of a process. False: the proxy has no such process, or it has ended before. */
export async function stopProxyReplica(db: Db, { id: proxyId }: VerifiedProxy, id: string): Promise<boolean> {
  const { count } = await db`UPDATE workspace_proxy_replicas SET stopped_at = now()
    WHERE proxy_id = ${proxyId} AND id = ${id} AND stopped_at IS NULL`;
  return count > 0;
}
