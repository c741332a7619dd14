import type { LogNumber, LogPositions } from '@ropewalk/wire/log-sequence';
import type { SystemTask } from '../../authz/proofs.ts';
import type { Db, Sql } from '../connect.ts';
import type { Owned, Ownership } from '../owned.ts';
import { type OwnedJob, signOfLife, type TouchedJob } from './job-ownership.ts';

export interface LogLine {
  source: 'provisioner_daemon' | 'provisioner';
  level: 'trace' | 'debug' | 'info' | 'warn' | 'error';
  stage: string;
  output: string;
  createdAt: Date;
  /** Absent in lines of upstream's daemons and of the server. */
  number?: LogNumber | undefined;
}

export interface JobLogRow {
  id: number;
  created_at: Date;
  source: 'provisioner_daemon' | 'provisioner';
  level: 'trace' | 'debug' | 'info' | 'warn' | 'error';
  stage: string;
  output: string;
}

/** The writer of a job's log: the job's owner, or the server itself. */
export type JobLogWriter = OwnedJob | { task: SystemTask; id: string };

export async function insertJobLogs(db: Db, { id: jobId }: JobLogWriter, logs: LogLine[]): Promise<void> {
  await db`INSERT INTO provisioner_job_logs (job_id, created_at, source, level, stage, output)
    SELECT ${jobId}::uuid, l.* FROM ${rowsOf(db, logs)} AS l`;
}

const rowsOf = (db: Db, logs: LogLine[]) => db`unnest(
  ${logs.map((log) => log.createdAt.toISOString())}::text[]::timestamptz[], ${logs.map((log) => log.source)}::text[],
  ${logs.map((log) => log.level)}::text[], ${logs.map((log) => log.stage.slice(0, 128))}::text[],
  ${logs.map((log) => log.output.replaceAll('\0', '').slice(0, 1024))}::text[])`;

/**
 * Stores a sign of life and the next lines of a job's log, in one statement, if as much of the log is stored as the caller
 * knows. Undefined if not, and if this daemon does not own the job: then nothing has changed.
 */
export async function touchWithLogs(
  sql: Sql,
  own: Ownership,
  leaseMs: number,
  next: { known: LogPositions; positions: LogPositions; lines: LogLine[] },
): Promise<Owned<TouchedJob> | undefined> {
  const [row] = await sql<Owned<TouchedJob>[]>`
    WITH touched AS (
      UPDATE provisioner_jobs SET ${signOfLife(sql, leaseMs)}, log_positions = ${sql.json(next.positions)}
      WHERE id = ${own.jobId} AND worker_id = ${own.workerId} AND acquire_epoch = ${own.epoch} AND completed_at IS NULL
        AND log_positions = ${sql.json(next.known)}
      RETURNING id, canceled_at, force_canceled, log_positions
    ), stored AS (
      INSERT INTO provisioner_job_logs (job_id, created_at, source, level, stage, output)
      SELECT touched.id, l.* FROM touched CROSS JOIN ${rowsOf(sql, next.lines)} AS l
    )
    SELECT * FROM touched`;
  return row;
}

/** Adds a line of the server to a job's log. */
export function noteInJobLog(db: Db, writer: JobLogWriter, level: LogLine['level'], output: string): Promise<void> {
  return insertJobLogs(db, writer, [{ source: 'provisioner_daemon', level, stage: '', output, createdAt: new Date() }]);
}

/**
 * The lines of a job's log after an id, and whether the job has ended, of one moment: if it has ended and there are fewer
 * lines than `limit`, there will be no more. `ended` is true without such a job.
 */
export async function newJobLogs(
  db: Db,
  jobId: string,
  { after, limit }: { after: number; limit: number },
): Promise<{ ended: boolean; lines: JobLogRow[] }> {
  const rows = await db<({ ended: boolean } & { [K in keyof JobLogRow]: JobLogRow[K] | null })[]>`
    SELECT j.completed_at IS NOT NULL AS ended, l.* FROM provisioner_jobs j
    LEFT JOIN LATERAL (
      SELECT id, created_at, source, level, stage, output FROM provisioner_job_logs
      WHERE job_id = j.id AND id > ${after} ORDER BY id LIMIT ${limit}
    ) l ON true
    WHERE j.id = ${jobId} ORDER BY l.id`;
  return { ended: rows[0]?.ended ?? true, lines: rows.filter((row) => row.id !== null) as JobLogRow[] };
}

export async function jobLogs(
  db: Db,
  jobId: string,
  { after, before, limit = 100_000 }: { after?: number | undefined; before?: number | undefined; limit?: number },
): Promise<JobLogRow[]> {
  return db<JobLogRow[]>`SELECT id, created_at, source, level, stage, output FROM provisioner_job_logs
    WHERE job_id = ${jobId} AND id > ${after ?? 0} AND (${before ?? null}::bigint IS NULL OR id < ${before ?? null}::bigint)
    ORDER BY id LIMIT ${limit}`;
}
