import type postgres from 'postgres';
import type { Allowed } from '../../authz/authorize.ts';
import type { ConnectedAgent, SystemTask } from '../../authz/proofs.ts';
import type { Db, Tx } from '../connect.ts';
import type { Owned } from '../owned.ts';
import type { AgentIdentity, AgentNetwork, AgentRow, JobRow, WorkspaceRow } from '../rows.ts';
import { unflushed } from '../unflushed.ts';
import { EXTERNAL_AGENT, RESOURCE_PLACE, type ResourcePlace } from './resources.ts';

/** The status of an agent `a`, as app/agent/status.ts decides it. */
export const agentStatus = (db: Db) => db`CASE
  WHEN a.first_connected_at IS NULL THEN CASE WHEN a.connection_timeout_seconds > 0
    AND a.created_at + a.connection_timeout_seconds * interval '1 second' < now() THEN 'timeout' ELSE 'connecting' END
  WHEN a.disconnected_at >= a.last_connected_at OR a.last_connected_at < now() - interval '30 seconds' THEN 'disconnected'
  ELSE 'connected' END`;

/** Whether an agent `a` is unhealthy, as app/agent/health.ts decides it. */
export const agentIsUnhealthy = (db: Db) => db`CASE ${agentStatus(db)}
  WHEN 'connected' THEN a.lifecycle_state IN ('start_error', 'shutting_down', 'shutdown_error', 'shutdown_timeout', 'off')
  WHEN 'connecting' THEN false
  ELSE true END`;

const IDENTITY = (db: Db) => db`
  a.*, w.id AS workspace_id, w.name AS workspace_name, w.organization_id, w.owner_id, w.dormant_at, w.user_acl, w.group_acl,
  u.username AS owner_name, b.build_number
  FROM workspace_agents a JOIN workspace_resources r ON r.id = a.resource_id
  JOIN workspace_builds b ON b.job_id = r.job_id JOIN workspaces w ON w.id = b.workspace_id JOIN users u ON u.id = w.owner_id`;

/**
 * Whether a build's agents may report. Those of the latest build may. While a later stop or delete runs, so may those
 * of the build before, so that they can send their last logs and lifecycle. While a claim runs, the agents of a prebuilt
 * workspace stay connected, so that they learn of its end.
 */
const MAY_REPORT = (db: Db) => db`NOT w.deleted AND NOT a.deleted AND b.build_number >= (
  SELECT CASE WHEN (n.transition <> 'start' OR j.input ->> 'prebuilt_stage' = 'claim') AND j.completed_at IS NULL THEN n.build_number - 1 ELSE n.build_number END
  FROM workspace_builds n JOIN provisioner_jobs j ON j.id = n.job_id
  WHERE n.workspace_id = w.id ORDER BY n.build_number DESC LIMIT 1)`;

export async function agentByToken(db: Db, token: string): Promise<AgentIdentity | undefined> {
  const [row] = await db<AgentIdentity[]>`SELECT ${IDENTITY(db)} WHERE a.auth_token = ${token} AND ${MAY_REPORT(db)}`;
  return row;
}

/** Whether the agent may still report: its build is the workspace's latest, or the one that is being stopped. */
export async function mayReport(db: Db, agent: ConnectedAgent): Promise<boolean> {
  const rows = await db`SELECT ${IDENTITY(db)} WHERE a.id = ${agent.id} AND ${MAY_REPORT(db)}`;
  return rows.length > 0;
}

/** Those of the agents that may still report: see `mayReport`. */
export async function currentAgents(db: Db, ids: readonly string[]): Promise<AgentIdentity[]> {
  if (ids.length === 0) return [];
  return db<AgentIdentity[]>`SELECT ${IDENTITY(db)} WHERE a.id = ANY(${ids as string[]}) AND ${MAY_REPORT(db)}`;
}

export async function agentById(db: Db, id: string): Promise<AgentIdentity | undefined> {
  const [row] = await db<AgentIdentity[]>`SELECT ${IDENTITY(db)} WHERE a.id = ${id}`;
  return row;
}

/** The agents of a workspace's latest build that run outside the machines that its template creates. */
export async function externalAgents(
  db: Db,
  { id }: Allowed<'ssh', WorkspaceRow>,
): Promise<Pick<AgentRow, 'name' | 'auth_token' | 'auth_instance_id' | 'operating_system' | 'architecture'>[]> {
  return db`SELECT a.name, a.auth_token, a.auth_instance_id, a.operating_system, a.architecture
    FROM workspace_agents a JOIN workspace_resources r ON r.id = a.resource_id
    JOIN workspace_builds b ON b.job_id = r.job_id
    WHERE b.workspace_id = ${id} AND r.type = ${EXTERNAL_AGENT} AND NOT a.deleted
      AND b.build_number = (SELECT max(n.build_number) FROM workspace_builds n WHERE n.workspace_id = ${id})`;
}

/** The agents of a running workspace: its latest build is a start that succeeded. Empty in other states. */
export async function agentsOfRunning(db: Db, ownerId: string, workspace: string): Promise<AgentIdentity[]> {
  return db<AgentIdentity[]>`SELECT ${IDENTITY(db)} JOIN provisioner_jobs j ON j.id = b.job_id
    WHERE w.owner_id = ${ownerId} AND lower(w.name) = lower(${workspace}) AND NOT w.deleted AND NOT a.deleted
      AND b.transition = 'start' AND j.job_status = 'succeeded'
      AND b.build_number = (SELECT max(n.build_number) FROM workspace_builds n WHERE n.workspace_id = w.id)`;
}

/**
 * The agents of a machine, by the machine's id in its cloud, and whether each may report. Those that may come first, then
 * the newest. With a name, only agents of that name. At most two: more than one that may report is an error.
 */
export async function agentsByInstance(
  db: Db,
  instanceId: string,
  name: string | undefined,
): Promise<{ auth_token: string; job_type: string; may_report: boolean }[]> {
  return db<{ auth_token: string; job_type: string; may_report: boolean }[]>`
    SELECT a.auth_token, j.type AS job_type, coalesce(b.id IS NOT NULL AND ${MAY_REPORT(db)}, false) AS may_report
    FROM workspace_agents a JOIN workspace_resources r ON r.id = a.resource_id JOIN provisioner_jobs j ON j.id = r.job_id
    LEFT JOIN workspace_builds b ON b.job_id = j.id LEFT JOIN workspaces w ON w.id = b.workspace_id
    WHERE a.auth_instance_id = ${instanceId} AND (${name ?? null}::text IS NULL OR a.name = ${name ?? null}) AND NOT a.deleted
    ORDER BY may_report DESC, a.created_at DESC LIMIT 2`;
}

/** What identifies agents: their tokens, which are UUIDs, and the ids of their machines. */
export interface AgentCredentials {
  tokens: readonly string[];
  instanceIds: readonly string[];
}

/** Waits until no other transaction that has locked one of these can add an agent with it. */
export async function lockCredentials(tx: Tx, { tokens, instanceIds }: AgentCredentials): Promise<void> {
  await tx`SELECT pg_advisory_xact_lock(k) FROM (
    SELECT DISTINCT hashtextextended('agent ' || lower(v), 0) AS k FROM unnest(${[...tokens, ...instanceIds]}::text[]) AS g (v)
    ORDER BY k) locks`;
}

/**
 * The oldest agent of another workspace that has one of these credentials, if there is one. A stopped workspace keeps
 * those of its last start, because its machine may stay and a stop often reports no agents.
 */
export async function othersWithCredentials(
  tx: Tx,
  job: Owned<JobRow>,
  { tokens, instanceIds }: AgentCredentials,
): Promise<{ auth_instance_id: string | null }[]> {
  return tx<{ auth_instance_id: string | null }[]>`SELECT a.auth_instance_id
    FROM workspace_agents a JOIN workspace_resources r ON r.id = a.resource_id
    JOIN workspace_builds b ON b.job_id = r.job_id JOIN workspaces w ON w.id = b.workspace_id
    WHERE (a.auth_token = ANY(${[...tokens]}::text[]::uuid[]) OR a.auth_instance_id = ANY(${[...instanceIds]}))
      AND NOT w.deleted AND NOT a.deleted AND NOT EXISTS (
        SELECT FROM workspace_builds n JOIN provisioner_jobs j ON j.id = n.job_id WHERE n.workspace_id = w.id
          AND n.build_number > b.build_number AND n.transition = 'start' AND j.job_status = 'succeeded')
      AND w.id <> (SELECT own.workspace_id FROM workspace_builds own WHERE own.job_id = ${job.id})
    ORDER BY a.created_at LIMIT 1`;
}

/** The agents of these jobs, or agents by id. */
export async function agentsWhere(
  db: Db,
  where: { jobIds: string[] } | { agentIds: string[] },
): Promise<(AgentRow & ResourcePlace)[]> {
  const place = RESOURCE_PLACE(db);
  return db<(AgentRow & ResourcePlace)[]>`
    SELECT a.*, ${place.columns}
    FROM workspace_agents a JOIN workspace_resources r ON r.id = a.resource_id ${place.join} WHERE NOT a.deleted AND
      ${'jobIds' in where ? db`r.job_id = ANY(${where.jobIds})` : db`a.id = ANY(${where.agentIds})`}
    ORDER BY a.display_order, a.name`;
}

/** The columns of an agent that its health is calculated from. */
export type AgentState = Pick<
  AgentRow,
  | 'id'
  | 'lifecycle_state'
  | 'first_connected_at'
  | 'last_connected_at'
  | 'disconnected_at'
  | 'created_at'
  | 'connection_timeout_seconds'
  | 'resource_alerts'
>;

export async function agentStatesOfJobs(db: Db, jobIds: string[]): Promise<(AgentState & { job_id: string })[]> {
  return db<(AgentState & { job_id: string })[]>`
    SELECT r.job_id, a.id, a.lifecycle_state, a.first_connected_at, a.last_connected_at, a.disconnected_at, a.created_at,
      a.connection_timeout_seconds, a.resource_alerts
    FROM workspace_resources r JOIN workspace_agents a ON a.resource_id = r.id
    WHERE r.job_id = ANY(${jobIds}) AND NOT a.deleted`;
}

export interface FailedScript {
  agent_id: string;
  name: string;
  stage: string;
  status: string;
  exit_code: number;
}

/** For each agent, the last script of its current stage that failed or took too long. */
export async function failedScripts(db: Db, agentIds: string[]): Promise<FailedScript[]> {
  if (agentIds.length === 0) return [];
  return db<FailedScript[]>`SELECT DISTINCT ON (s.workspace_agent_id) s.workspace_agent_id AS agent_id,
      coalesce(nullif(s.display_name, ''), 'script') AS name, t.stage, t.status, t.exit_code
    FROM workspace_agent_scripts s JOIN workspace_agent_script_timings t ON t.script_id = s.id
    JOIN workspace_agents a ON a.id = s.workspace_agent_id
    WHERE s.workspace_agent_id = ANY(${agentIds}) AND t.status IN ('exit_failure', 'timed_out')
      AND t.stage = CASE WHEN a.lifecycle_state IN ('start_error', 'start_timeout') THEN 'start' ELSE 'stop' END
    ORDER BY s.workspace_agent_id, t.ended_at DESC`;
}

export interface LaterBuild {
  agent_id: string;
  transition: 'start' | 'stop' | 'delete';
  done: boolean;
  at: Date;
}

/** The build that replaced the build of each of these agents, if any. */
export async function laterBuilds(db: Db, agentIds: string[]): Promise<LaterBuild[]> {
  if (agentIds.length === 0) return [];
  return db<LaterBuild[]>`SELECT a.id AS agent_id, n.transition, j.completed_at IS NOT NULL AS done,
      coalesce(j.completed_at, n.created_at) AS at
    FROM workspace_agents a JOIN workspace_resources r ON r.id = a.resource_id
    JOIN workspace_builds b ON b.job_id = r.job_id
    JOIN LATERAL (SELECT * FROM workspace_builds n WHERE n.workspace_id = b.workspace_id
      ORDER BY n.build_number DESC LIMIT 1) n ON n.build_number > b.build_number
    JOIN provisioner_jobs j ON j.id = n.job_id WHERE a.id = ANY(${agentIds})`;
}

/** What is stored of an agent's newest connection. */
export interface ConnectionTraits {
  /** Whether it serves our tunnels. Only servers of an earlier release read it. */
  reachable: boolean;
  /** The version of the agent API. */
  version: string;
  /** What it offers of our extensions. */
  capabilities: readonly string[];
  /** The server that it is connected to. */
  replicaId: string;
}

/** A connection that an agent begins. */
export interface NewConnection {
  agent: ConnectedAgent<Pick<AgentIdentity, 'id'>>;
  traits: ConnectionTraits;
  /** The SSH host key that it reports. Empty: none. */
  hostKey: string;
}

/**
 * The rows `c` of existing agents, which it locks in the order of their ids: two statements with many agents never
 * deadlock. It finds each agent by its id, so that the join with the agents to update is the only other one.
 */
const lockedAgents = (db: Db, rows: postgres.PendingQuery<postgres.Row[]>) =>
  db`(SELECT c.* FROM ${rows} JOIN workspace_agents l ON l.id = c.id ORDER BY l.id FOR NO KEY UPDATE OF l) AS c`;

/** The items as rows: `jsonb_to_recordset` takes columns that are lists. */
const asRows = (db: Db, rows: readonly object[]) => db`jsonb_to_recordset(${db.json(rows as never)})`;

/**
 * Numbers a connection of each agent, and stores its traits and the agent's first SSH host key. Later connections have
 * higher numbers. Returns the numbers in the order of the connections. Undefined: the agent has another host key, or no
 * longer exists. Each agent may occur once.
 */
export async function countConnections(db: Db, connections: readonly NewConnection[]): Promise<(number | undefined)[]> {
  const rows = connections.map(({ agent, traits, hostKey }) => ({ id: agent.id, ...traits, hostKey }));
  const counted = await db<{ id: string; connection_number: number }[]>`UPDATE workspace_agents a
    SET connection_number = a.connection_number + 1, reachable = c.reachable, api_version = c.version,
      capabilities = c.capabilities, replica_id = c."replicaId", ssh_host_key = c."hostKey"
    FROM ${lockedAgents(
      db,
      db`${asRows(db, rows)}
        AS c (id uuid, reachable boolean, version text, capabilities text[], "replicaId" uuid, "hostKey" text)`,
    )}
    WHERE a.id = c.id AND a.ssh_host_key IN ('', c."hostKey") RETURNING a.id, a.connection_number`;
  const numbers = new Map(counted.map(({ id, connection_number: number }) => [id, number]));
  return rows.map(({ id }) => numbers.get(id));
}

/** A connection of an agent, numbered by countConnections. */
export interface Connected {
  agent: ConnectedAgent;
  number: number;
}

/** A connection that is alive, and what its agent's network is now. */
export interface AliveConnection extends Connected {
  network: AgentNetwork | undefined;
}

const connections = (
  db: Db,
  connected: readonly Connected[],
) => db`unnest(${connected.map(({ agent }) => agent.id)}::uuid[],
  ${connected.map(({ number }) => String(number))}::text[]::bigint[]) AS c (id, number)`;

/**
 * Stores that connections are alive, without waiting for the disk: the next beat stores it again. Returns the ids of
 * agents whose connection must end because the agent's build is outdated or the agent has a newer connection.
 */
export async function markAgentsAlive(db: Db, connected: readonly AliveConnection[]): Promise<Set<string>> {
  const networks = connected.map(({ network }) => (network ? JSON.stringify(network) : null));
  const rows = await db<Pick<AgentRow, 'id'>[]>`WITH alive AS (
      UPDATE workspace_agents a SET last_connected_at = now(), disconnected_at = NULL, connect_deadline = NULL,
        first_connected_at = coalesce(a.first_connected_at, now()), network = c.network
      FROM ${lockedAgents(
        db,
        db`unnest(${connected.map(({ agent }) => agent.id)}::uuid[],
          ${connected.map(({ number }) => String(number))}::text[]::bigint[], ${networks}::text[]::jsonb[])
          AS c (id, number, network)`,
      )}, workspace_resources r, workspace_builds b, workspaces w
      WHERE (SELECT ${unflushed(db)}) AND a.id = c.id AND a.connection_number = c.number AND r.id = a.resource_id AND b.job_id = r.job_id
        AND w.id = b.workspace_id AND ${MAY_REPORT(db)} RETURNING a.id)
    SELECT c.id FROM ${connections(db, connected)} WHERE NOT EXISTS (SELECT 1 FROM alive WHERE alive.id = c.id)`;
  return new Set(rows.map(({ id }) => id));
}

/** Stores the end of connections. Returns the ids of agents without a newer one. */
export async function markAgentsGone(db: Db, connected: readonly Connected[]): Promise<Set<string>> {
  const rows = await db<Pick<AgentRow, 'id'>[]>`UPDATE workspace_agents a SET disconnected_at = now()
    FROM ${lockedAgents(db, connections(db, connected))} WHERE a.id = c.id AND a.connection_number = c.number RETURNING a.id`;
  return new Set(rows.map(({ id }) => id));
}

/** What an agent reports of its program when it has started. */
export interface AgentStartup {
  agent: ConnectedAgent<Pick<AgentIdentity, 'id'>>;
  version: string;
  expandedDirectory: string;
  subsystems: readonly string[];
}

/** Stores the programs of agents. Each agent may occur once. */
export async function setAgentStartups(db: Db, startups: readonly AgentStartup[]): Promise<void> {
  const rows = startups.map(({ agent, ...startup }) => ({ id: agent.id, ...startup }));
  await db`UPDATE workspace_agents a SET version = c.version, expanded_directory = c."expandedDirectory",
      subsystems = c.subsystems, updated_at = now()
    FROM ${lockedAgents(
      db,
      db`${asRows(db, rows)} AS c (id uuid, version text, "expandedDirectory" text, subsystems text[])`,
    )}
    WHERE a.id = c.id`;
}

/** States in which the start scripts have ended. */
export const STARTED: readonly AgentRow['lifecycle_state'][] = ['ready', 'start_timeout', 'start_error'];

/** A state that an agent enters. */
export interface AgentLifecycle {
  agent: ConnectedAgent<Pick<AgentIdentity, 'id' | 'workspace_id' | 'name'>>;
  state: AgentRow['lifecycle_state'];
  at: Date;
  /** Ends the sessions that were opened before, because they ended with the agent's earlier process. */
  endSessionsBefore?: Date | undefined;
}

/** Stores the states of agents. Each agent may occur once. */
export async function setAgentLifecycles(db: Db, lifecycles: readonly AgentLifecycle[]): Promise<void> {
  const rows = lifecycles.map(({ agent, state, at, endSessionsBefore }) => ({
    id: agent.id,
    state,
    done: STARTED.includes(state),
    at,
    workspaceId: agent.workspace_id,
    name: agent.name,
    before: endSessionsBefore,
  }));
  // the sessions of each agent are found by an index, whatever the plan of the rest is
  await db`WITH reported AS (
      SELECT * FROM ${asRows(db, rows)} AS c (id uuid, state text, done boolean, at timestamptz, "workspaceId" uuid,
        name text, before timestamptz)),
    ended AS (
      UPDATE connection_logs SET disconnect_time = now(), disconnect_reason = 'The agent was restarted.'
      WHERE id = ANY(ARRAY(SELECT open.id FROM reported c CROSS JOIN LATERAL (
        SELECT o.id FROM connection_logs o WHERE o.workspace_id = c."workspaceId" AND o.agent_name = c.name
          AND o.connection_id IS NOT NULL AND o.disconnect_time IS NULL AND o.connect_time < c.before OFFSET 0) open))
        AND disconnect_time IS NULL)
    UPDATE workspace_agents a SET lifecycle_state = c.state, updated_at = now(),
      started_at = CASE WHEN c.state = 'starting' THEN c.at WHEN c.done THEN coalesce(a.started_at, c.at)
        ELSE a.started_at END,
      ready_at = CASE WHEN c.state = 'starting' THEN NULL WHEN c.done THEN c.at ELSE a.ready_at END
    FROM ${lockedAgents(db, db`reported c`)} WHERE a.id = c.id`;
}

/** Clears the deadlines of agents that did not connect in time. Returns the workspaces of these agents. */
export async function takeLateAgents(db: Db, _task: SystemTask): Promise<{ workspace_id: string; owner_id: string }[]> {
  return db<{ workspace_id: string; owner_id: string }[]>`
    WITH late AS (UPDATE workspace_agents SET connect_deadline = NULL WHERE connect_deadline <= now()
      RETURNING resource_id)
    SELECT w.id AS workspace_id, w.owner_id FROM late JOIN workspace_resources r ON r.id = late.resource_id
    JOIN workspace_builds b ON b.job_id = r.job_id JOIN workspaces w ON w.id = b.workspace_id`;
}

/** The time until the next agent is late, in ms. Undefined if no agent has a deadline. */
export async function nextLateAgentMs(db: Db): Promise<number | undefined> {
  const [next] = await db<{ ms: number | null }[]>`
    SELECT extract(epoch FROM min(connect_deadline) - now())::float8 * 1000 AS ms FROM workspace_agents
    WHERE connect_deadline IS NOT NULL`;
  return next?.ms ?? undefined;
}
