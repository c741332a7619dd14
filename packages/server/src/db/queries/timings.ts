// The durations of job stages, agent scripts and agent connections.

import type { ProvisionerTiming } from '@ropewalk/contract';
import type { Db, Tx } from '../connect.ts';
import type { Owned } from '../owned.ts';
import type { JobRow } from '../rows.ts';

export interface JobTimingRow {
  job_id: string;
  started_at: Date;
  ended_at: Date;
  stage: ProvisionerTiming['stage'];
  source: string;
  action: string;
  resource: string;
}

export interface ScriptTimingRow {
  started_at: Date;
  ended_at: Date;
  exit_code: number;
  stage: 'start' | 'stop' | 'cron';
  status: string;
  display_name: string;
  agent_id: string;
  agent_name: string;
}

export interface ConnectionTimingRow {
  id: string;
  name: string;
  created_at: Date;
  first_connected_at: Date;
}

export async function timingsOfJob(db: Db, jobId: string): Promise<JobTimingRow[]> {
  return db<JobTimingRow[]>`
    SELECT * FROM provisioner_job_timings WHERE job_id = ${jobId} ORDER BY started_at`;
}

export async function scriptTimingsOfJob(db: Db, jobId: string): Promise<ScriptTimingRow[]> {
  return db<ScriptTimingRow[]>`
    SELECT st.*, s.display_name, a.id AS agent_id, a.name AS agent_name FROM workspace_agent_script_timings st
    JOIN workspace_agent_scripts s ON s.id = st.script_id JOIN workspace_agents a ON a.id = s.workspace_agent_id
    JOIN workspace_resources r ON r.id = a.resource_id WHERE r.job_id = ${jobId} ORDER BY st.started_at`;
}

/** When the agents of a job connected first. */
export async function connectionTimingsOfJob(db: Db, jobId: string): Promise<ConnectionTimingRow[]> {
  return db<ConnectionTimingRow[]>`
    SELECT a.id, a.name, a.created_at, a.first_connected_at FROM workspace_agents a
    JOIN workspace_resources r ON r.id = a.resource_id WHERE r.job_id = ${jobId} AND a.first_connected_at IS NOT NULL`;
}

/** The maximum number of rows in one statement: each has seven parameters, and a statement has at most 65,535. */
const AT_ONCE = 1_000;

export type NewJobTiming = Omit<JobTimingRow, 'job_id' | 'stage'> & { stage: string };

/** Adds timings of a job's stages, many in one statement: a build has several for each of its resources. */
export async function insertJobTimings(tx: Tx, job: Owned<JobRow>, timings: readonly NewJobTiming[]): Promise<void> {
  const rows = timings.map((timing) => ({ job_id: job.id, ...timing }));
  for (let from = 0; from < rows.length; from += AT_ONCE) {
    await tx`INSERT INTO provisioner_job_timings ${tx(rows.slice(from, from + AT_ONCE))}`;
  }
}
