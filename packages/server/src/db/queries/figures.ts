// The figures of the whole deployment that metrics show.

import { PREBUILDS_USER_ID } from '@ropewalk/contract/permissions';
import type { ConnectedAgent } from '../../authz/proofs.ts';
import type { Db, Sql, Tx } from '../connect.ts';
import type { AgentIdentity, JobStatus, JobType, Tags } from '../rows.ts';
import { daemonStatus } from './daemons.ts';
import { liveReplicas } from './replicas.ts';

/** The longest run of one statement. A slower database is too busy for metrics. */
export const STATEMENT_TIMEOUT = '5s';

export interface Figures {
  waiting: QueueSet[];
  present: DaemonSet[];
  running: { provisioner: string; count: number }[];
  activeUsers: number;
  /** By status. */
  users: { status: string; count: number }[];
  latest: { status: string; count: number }[];
  /** Servers with a recent sign of life. */
  replicas: number;
}

/**
 * Reads all figures in one read-only transaction. The `most` largest tag sets are listed separately, and the others are
 * summed.
 */
export async function readFigures(sql: Sql, most: number): Promise<Figures> {
  return sql.begin('READ ONLY', async (tx) => {
    await tx`SELECT set_config('statement_timeout', ${STATEMENT_TIMEOUT}, true)`;
    return {
      waiting: await readQueue(tx, most),
      present: await readDaemons(tx, most),
      running: await readRunning(tx),
      activeUsers: await readUsers(tx),
      users: await readUserStatuses(tx),
      latest: await readBuilds(tx),
      replicas: (await liveReplicas(tx)).length,
    };
  }) as Promise<Figures>;
}

export interface QueueSet {
  organization: string;
  /** Null: all other tag sets. */
  tags: Tags | null;
  waits: number;
  seconds: number;
  /** Null for all other tag sets. */
  idle: number | null;
}

function readQueue(tx: Tx, most: number): Promise<QueueSet[]> {
  return tx<QueueSet[]>`
    WITH sets AS (
      SELECT organization_id, tags, array_agg(DISTINCT provisioner) AS provisioners, count(*) AS waits,
        extract(epoch FROM now() - min(created_at))::float8 AS seconds
      FROM provisioner_jobs WHERE started_at IS NULL AND completed_at IS NULL AND canceled_at IS NULL
      GROUP BY organization_id, tags),
    ranked AS (
      SELECT sets.*, o.name AS organization, row_number() OVER (ORDER BY waits DESC, o.name, tags::text) AS rank
      FROM sets JOIN organizations o ON o.id = sets.organization_id),
    idle AS (
      SELECT organization_id, tags, provisioners, count(*) AS daemons FROM provisioner_daemons d
      WHERE ${daemonStatus(tx)} = 'idle'
      GROUP BY organization_id, tags, provisioners)
    SELECT organization, tags, waits, seconds, (
      SELECT coalesce(sum(daemons), 0)::int8 FROM idle
      WHERE idle.organization_id = ranked.organization_id AND idle.provisioners && ranked.provisioners
        AND provisioner_tags_match(idle.tags, ranked.tags)) AS idle
    FROM ranked WHERE rank <= ${most}
    UNION ALL
    SELECT organization, NULL, sum(waits)::int8, max(seconds), NULL FROM ranked WHERE rank > ${most}
    GROUP BY organization`;
}

export interface DaemonSet {
  organization: string;
  tags: Tags | null;
  idle: number;
  busy: number;
  offline: number;
}

function readDaemons(tx: Tx, most: number): Promise<DaemonSet[]> {
  return tx<DaemonSet[]>`
    WITH each AS (
      SELECT organization_id, tags, ${daemonStatus(tx)} AS status FROM provisioner_daemons d),
    sets AS (
      SELECT organization_id, tags, count(*) FILTER (WHERE status = 'idle') AS idle,
        count(*) FILTER (WHERE status = 'busy') AS busy, count(*) FILTER (WHERE status = 'offline') AS offline
      FROM each GROUP BY organization_id, tags),
    ranked AS (
      SELECT sets.*, o.name AS organization,
        row_number() OVER (ORDER BY idle + busy DESC, offline DESC, o.name, tags::text) AS rank
      FROM sets JOIN organizations o ON o.id = sets.organization_id)
    SELECT organization, tags, idle, busy, offline FROM ranked WHERE rank <= ${most}
    UNION ALL
    SELECT organization, NULL, sum(idle)::int8, sum(busy)::int8, sum(offline)::int8 FROM ranked
    WHERE rank > ${most} GROUP BY organization`;
}

function readRunning(tx: Tx): Promise<{ provisioner: string; count: number }[]> {
  return tx<{ provisioner: string; count: number }[]>`SELECT provisioner, count(*) FROM provisioner_jobs
    WHERE started_at IS NOT NULL AND completed_at IS NULL GROUP BY provisioner`;
}

async function readUsers(tx: Tx): Promise<number> {
  const [row] = await tx<{ count: number }[]>`SELECT count(*) FROM users
    WHERE last_seen_at > now() - interval '1 hour' AND NOT deleted AND NOT is_system`;
  return row!.count;
}

function readUserStatuses(tx: Tx): Promise<{ status: string; count: number }[]> {
  return tx<{ status: string; count: number }[]>`
    SELECT status, count(*) FROM users WHERE NOT deleted AND NOT is_system GROUP BY status`;
}

function readBuilds(tx: Tx): Promise<{ status: string; count: number }[]> {
  return tx<{ status: string; count: number }[]>`
    SELECT j.job_status AS status, count(*) FROM workspaces w
    JOIN LATERAL (SELECT job_id FROM workspace_builds b WHERE b.workspace_id = w.id
      ORDER BY build_number DESC LIMIT 1) latest ON true
    JOIN provisioner_jobs j ON j.id = latest.job_id WHERE NOT w.deleted GROUP BY j.job_status`;
}

export interface EndedJob {
  id: string;
  type: JobType;
  provisioner: string;
  job_status: JobStatus;
  created_at: Date;
  started_at: Date | null;
  completed_at: Date;
  seconds: number | null;
  initiator_id: string;
  organization_name: string;
  /** Whether the build gives a prebuilt workspace to a person. */
  is_claim: boolean;
  transition: string | null;
  build_number: number | null;
  build_reason: string | null;
  preset_name: string | null;
  workspace_name: string | null;
  owner_name: string | null;
  template_name: string | null;
  version_name: string | null;
}

/** The jobs among these that have ended. */
export async function endedJobs(db: Db, ids: string[]): Promise<EndedJob[]> {
  return db<EndedJob[]>`
    SELECT j.id, j.type, j.provisioner, j.job_status, j.created_at, j.started_at, j.completed_at, b.transition, w.name AS workspace_name, u.username AS owner_name,
      t.name AS template_name, v.name AS version_name, j.initiator_id, o.name AS organization_name, b.build_number,
      b.reason AS build_reason, p.name AS preset_name, j.input ->> 'prebuilt_stage' IS NOT DISTINCT FROM 'claim' AS is_claim,
      extract(epoch FROM j.completed_at - j.started_at)::float8 AS seconds
    FROM provisioner_jobs j JOIN organizations o ON o.id = j.organization_id LEFT JOIN workspace_builds b ON b.job_id = j.id
    LEFT JOIN workspaces w ON w.id = b.workspace_id LEFT JOIN users u ON u.id = w.owner_id
    LEFT JOIN templates t ON t.id = w.template_id LEFT JOIN template_versions v ON v.id = b.template_version_id
    LEFT JOIN template_version_presets p ON p.id = b.template_version_preset_id
    WHERE j.id = ANY(${ids}::uuid[]) AND j.completed_at IS NOT NULL`;
}

export interface StageTime {
  job_id: string;
  stage: string;
  started_at: Date;
  ended_at: Date;
  seconds: number;
}

/** When each stage of these jobs ran, in order. */
export async function stageTimes(db: Db, jobIds: string[]): Promise<StageTime[]> {
  return db<StageTime[]>`
    SELECT job_id, stage, min(started_at) AS started_at, max(ended_at) AS ended_at, extract(epoch FROM max(ended_at) - min(started_at))::float8 AS seconds
    FROM provisioner_job_timings WHERE job_id = ANY(${jobIds}::uuid[]) GROUP BY job_id, stage ORDER BY started_at`;
}

export async function organizationNameById(db: Db, id: string): Promise<string | undefined> {
  const [row] = await db<{ name: string }[]>`SELECT name FROM organizations WHERE id = ${id}`;
  return row?.name;
}

export async function templateNameOfWorkspace(db: Db, id: string): Promise<string | undefined> {
  const [row] = await db<{ name: string }[]>`SELECT t.name FROM workspaces w JOIN templates t ON t.id = w.template_id
    WHERE w.id = ${id}`;
  return row?.name;
}

/** An agent that has reported the end of its start. */
export type StartedAgent = ConnectedAgent<Pick<AgentIdentity, 'id' | 'parent_id'>>;

/** A build whose agents have all started. */
export interface StartedBuild {
  template_name: string;
  organization_name: string;
  transition: string;
  is_prebuild: boolean;
  /** From the creation of the build until now. */
  seconds: number;
  /** The worst of the agents' states. */
  status: 'success' | 'timeout' | 'error';
}

/**
 * Marks the build of an agent that has just started as counted. Undefined if a server has counted it, or if an agent of the
 * build has not started, or has started again since its first connection. Sub-agents do not count.
 */
export async function countStartedBuild(db: Db, { id: agentId }: StartedAgent): Promise<StartedBuild | undefined> {
  const [row] = await db<StartedBuild[]>`
    WITH started AS (
      SELECT b.id, t.name AS template_name, o.name AS organization_name, b.transition,
        w.owner_id = ${PREBUILDS_USER_ID} AS is_prebuild,
        extract(epoch FROM now() - b.created_at)::float8 AS seconds,
        CASE WHEN bool_or(a.lifecycle_state = 'start_error') THEN 'error'
          WHEN bool_or(a.lifecycle_state = 'start_timeout') THEN 'timeout' ELSE 'success' END AS status
      FROM workspace_builds b JOIN workspaces w ON w.id = b.workspace_id JOIN templates t ON t.id = w.template_id
        JOIN organizations o ON o.id = w.organization_id
        JOIN workspace_resources r ON r.job_id = b.job_id JOIN workspace_agents a ON a.resource_id = r.id AND a.parent_id IS NULL
      WHERE b.job_id = (SELECT r.job_id FROM workspace_agents a JOIN workspace_resources r ON r.id = a.resource_id
        WHERE a.id = ${agentId}) AND NOT b.start_counted
      GROUP BY b.id, t.id, w.id, o.id
      HAVING bool_and(a.ready_at IS NOT NULL AND a.started_at <= a.first_connected_at + interval '1 minute')),
    counted AS (
      UPDATE workspace_builds b SET start_counted = true FROM started WHERE b.id = started.id AND NOT b.start_counted
      RETURNING b.id)
    SELECT template_name, organization_name, transition, is_prebuild, seconds, status FROM started JOIN counted USING (id)`;
  return row;
}
