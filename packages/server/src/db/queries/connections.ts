// The log of connections to workspaces.

import type { SystemTask } from '../../authz/proofs.ts';
import type { Db } from '../connect.ts';
import { oneOf } from '../one-of.ts';
import type { AgentIdentity } from '../rows.ts';

export interface ConnectionRow {
  id: string;
  connect_time: Date;
  organization_id: string;
  workspace_owner_id: string;
  workspace_id: string;
  workspace_name: string;
  agent_name: string;
  type: string;
  ip: string;
  code: number | null;
  user_agent: string | null;
  user_id: string | null;
  slug_or_port: string | null;
  connection_id: string | null;
  disconnect_time: Date | null;
  disconnect_reason: string | null;
  /** The exact time, to continue a list after this row. */
  cursor: string;
}

/** The conditions of a search. Undefined: no condition. */
export interface ConnectionFilter {
  /** The organizations whose connections the actor may read. Undefined: all. */
  readable: string[] | undefined;
  organizationId: string | undefined;
  ownerIds: string[] | undefined;
  userIds: string[] | undefined;
  type: string | undefined;
  after: Date | undefined;
  before: Date | undefined;
  workspaceId: string | undefined;
  connectionId: string | undefined;
  status: 'ongoing' | 'completed' | undefined;
}

/** Connections of apps and ports in the browser have no recorded end, so they are neither ongoing nor completed. */
const TRACKED = (db: Db) => db`AND connection_id IS NOT NULL`;

function conditions(db: Db, filter: ConnectionFilter) {
  const { readable, organizationId, ownerIds, userIds, type, after, before } = filter;
  const { workspaceId, connectionId, status } = filter;
  return db`true
    ${readable ? db`AND organization_id ${oneOf(db, readable)}` : db``}
    ${organizationId ? db`AND organization_id = ${organizationId}` : db``}
    ${ownerIds ? db`AND workspace_owner_id ${oneOf(db, ownerIds)}` : db``}
    ${userIds ? db`AND user_id ${oneOf(db, userIds)}` : db``}
    ${type ? db`AND type = ${type}` : db``}
    ${after ? db`AND connect_time >= ${after}` : db``}
    ${before ? db`AND connect_time <= ${before}` : db``}
    ${workspaceId ? db`AND workspace_id = ${workspaceId}` : db``}
    ${connectionId ? db`AND connection_id = ${connectionId}` : db``}
    ${status === 'ongoing' ? db`${TRACKED(db)} AND disconnect_time IS NULL` : db``}
    ${status === 'completed' ? db`${TRACKED(db)} AND disconnect_time IS NOT NULL` : db``}`;
}

const COLUMNS = (db: Db) => db`*, connect_time::text AS cursor`;

/** One page of the matching connections, newest first. */
export async function connectionPage(
  db: Db,
  filter: ConnectionFilter,
  { limit, offset }: { limit: number; offset: number },
): Promise<ConnectionRow[]> {
  return db<ConnectionRow[]>`SELECT ${COLUMNS(db)} FROM connection_logs WHERE ${conditions(db, filter)}
    ORDER BY connect_time DESC, id DESC LIMIT ${limit} OFFSET ${offset}`;
}

/** The number of matching connections, counted up to `cap`. */
export async function countConnections(db: Db, filter: ConnectionFilter, cap: number): Promise<number> {
  const [row] = await db<{ count: number }[]>`SELECT count(*) AS count
    FROM (SELECT FROM connection_logs WHERE ${conditions(db, filter)} LIMIT ${cap}) AS found`;
  return row!.count;
}

/** The matching connections after one of them, newest first. */
export async function connectionsAfter(
  db: Db,
  filter: ConnectionFilter,
  last: Pick<ConnectionRow, 'cursor' | 'id'> | undefined,
  limit: number,
): Promise<ConnectionRow[]> {
  return db<ConnectionRow[]>`SELECT ${COLUMNS(db)} FROM connection_logs WHERE ${conditions(db, filter)}
    ${last ? db`AND (connect_time, id) < (${last.cursor}::text::timestamptz, ${last.id}::uuid)` : db``}
    ORDER BY connect_time DESC, id DESC LIMIT ${limit}`;
}

export interface NewTunnel {
  id: string;
  type: string;
  at: Date;
  ip: string;
  user_agent: string;
  user_id: string;
  slug: string | null;
  code: number | null;
  /** Why it ended immediately. Undefined: it is open. */
  denied?: string | undefined;
}

/** Records a tunnel to an agent. If the agent reported the connection first, adds what only the server knows. */
export async function insertTunnel(db: Db, _by: SystemTask, agent: AgentIdentity, tunnel: NewTunnel): Promise<void> {
  await db`INSERT INTO connection_logs ${db({
    id: crypto.randomUUID(),
    connect_time: tunnel.at,
    organization_id: agent.organization_id,
    workspace_owner_id: agent.owner_id,
    workspace_id: agent.workspace_id,
    workspace_name: agent.workspace_name,
    agent_name: agent.name,
    type: tunnel.type,
    ip: tunnel.ip,
    user_agent: tunnel.user_agent,
    user_id: tunnel.user_id,
    slug_or_port: tunnel.slug,
    code: tunnel.code,
    connection_id: tunnel.id,
    disconnect_time: tunnel.denied === undefined ? null : tunnel.at,
    disconnect_reason: tunnel.denied ?? null,
  })} ON CONFLICT (connection_id, workspace_id, agent_name) WHERE connection_id IS NOT NULL DO UPDATE SET
    ip = excluded.ip, user_agent = excluded.user_agent, user_id = excluded.user_id,
    slug_or_port = excluded.slug_or_port, code = coalesce(excluded.code, connection_logs.code)`;
}

/** Records that a tunnel ended, unless its end is recorded already. */
export async function endConnection(db: Db, _by: SystemTask, connectionId: string, at: Date): Promise<void> {
  await db`UPDATE connection_logs SET disconnect_time = ${at}
    WHERE connection_id = ${connectionId} AND disconnect_time IS NULL`;
}

/**
 * Ends at most this many open connections whose end nobody can report: to stopped and deleted workspaces, and to agents
 * that have been away for longer than a session waits for its next connection. Returns how many it ended.
 */
export async function endLostConnections(
  db: Db,
  _task: SystemTask,
  { awayMs, most }: { awayMs: number; most: number },
): Promise<number> {
  const { count } = await db`UPDATE connection_logs c
    SET disconnect_time = greatest(c.connect_time, over.at), disconnect_reason = over.reason
    FROM (
      SELECT o.id, CASE WHEN w.status IN ('stopped', 'deleted') THEN j.completed_at ELSE coalesce(away.at, now()) END AS at,
        CASE w.status WHEN 'stopped' THEN 'The workspace was stopped.' WHEN 'deleted' THEN 'The workspace was deleted.'
          ELSE 'The agent disconnected.' END AS reason
      FROM connection_logs o JOIN workspaces w ON w.id = o.workspace_id
      JOIN workspace_builds n ON n.id = w.latest_build_id JOIN provisioner_jobs j ON j.id = n.job_id
      LEFT JOIN LATERAL (
        SELECT CASE WHEN a.disconnected_at >= a.last_connected_at THEN a.disconnected_at ELSE a.last_connected_at END AS at
        FROM workspace_builds b JOIN workspace_resources r ON r.job_id = b.job_id
        JOIN workspace_agents a ON a.resource_id = r.id
        WHERE b.workspace_id = w.id AND a.name = o.agent_name AND a.last_connected_at IS NOT NULL
        ORDER BY b.build_number DESC LIMIT 1) away ON true
      WHERE o.connection_id IS NOT NULL AND o.disconnect_time IS NULL AND (w.status IN ('stopped', 'deleted')
        OR away.at IS NULL OR away.at < now() - ${awayMs} * interval '1 millisecond')
      LIMIT ${most}) over
    WHERE c.id = over.id AND c.disconnect_time IS NULL`;
  return count;
}

export interface NewWebConnection {
  workspaceId: string;
  agentId: string;
  type: string;
  app: string;
  userId: string | null;
  ip: string;
  userAgent: string;
}

/** Records a connection of a browser, unless the same one was recorded within the last hour. */
export async function insertWebConnection(db: Db, _by: SystemTask, connection: NewWebConnection): Promise<void> {
  const { workspaceId, agentId, type, app, userId, ip, userAgent } = connection;
  await db`INSERT INTO connection_logs (id, connect_time, organization_id, workspace_owner_id, workspace_id,
      workspace_name, agent_name, type, ip, code, user_agent, user_id, slug_or_port)
    SELECT gen_random_uuid(), clock_timestamp(), w.organization_id, w.owner_id, w.id, w.name, a.name, ${type}, ${ip}, 200,
      ${userAgent}, ${userId}::uuid, ${app}
    FROM workspaces w, workspace_agents a WHERE w.id = ${workspaceId} AND a.id = ${agentId} AND NOT EXISTS (
      SELECT FROM connection_logs c WHERE c.workspace_id = w.id AND c.connect_time > now() - interval '1 hour'
        AND c.agent_name = a.name AND c.type = ${type} AND c.slug_or_port = ${app} AND c.ip = ${ip}
        AND c.user_agent = ${userAgent} AND c.user_id IS NOT DISTINCT FROM ${userId}::uuid)`;
}

/** Deletes at most this many connections that began before. Returns how many it deleted. */
export async function purgeConnections(
  db: Db,
  _task: SystemTask,
  { before, most }: { before: Date; most: number },
): Promise<number> {
  const { count } = await db`DELETE FROM connection_logs WHERE id = ANY (ARRAY(SELECT id FROM connection_logs
    WHERE connect_time < ${before} ORDER BY connect_time LIMIT ${most} FOR UPDATE SKIP LOCKED))`;
  return count;
}
