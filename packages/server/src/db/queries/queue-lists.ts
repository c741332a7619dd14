// Jobs as the lists of an organization's daemons and of its queue show them.

import type { Db } from '../connect.ts';
import type { JobStatus } from '../rows.ts';
import type { ListFilter } from './daemons.ts';
import { QUEUE_ORDER } from './job-queue.ts';

export interface JobFilter extends ListFilter {
  /** The user who started the job. */
  initiatorId: string | null;
}

/** Ids of an organization's jobs, newest first. */
export async function jobsOf(db: Db, organizationId: string, filter: JobFilter): Promise<string[]> {
  const tags = filter.tags === null ? null : db.json(filter.tags);
  const rows = await db<{ id: string }[]>`SELECT id FROM provisioner_jobs WHERE organization_id = ${organizationId}
    AND (${filter.ids}::uuid[] IS NULL OR id = ANY(${filter.ids}::uuid[]))
    AND (${filter.statuses}::text[] IS NULL OR job_status = ANY(${filter.statuses}::text[]))
    AND (${filter.initiatorId}::uuid IS NULL OR initiator_id = ${filter.initiatorId}::uuid)
    AND (${tags}::jsonb IS NULL OR provisioner_tags_match(tags, ${tags}::jsonb))
    ORDER BY created_at DESC, id LIMIT ${filter.limit}`;
  return rows.map(({ id }) => id);
}

export async function isJobOf(db: Db, id: string, organizationId: string): Promise<boolean> {
  const rows = await db`SELECT 1 FROM provisioner_jobs WHERE id = ${id} AND organization_id = ${organizationId}`;
  return rows.length > 0;
}

export interface QueuePlace {
  id: string;
  place: number;
  size: number;
}

/**
 * The position of each of these pending jobs among those of its organization, in the order of the queue, whatever daemons
 * may take them.
 */
export async function queuePlaces(db: Db, ids: string[]): Promise<QueuePlace[]> {
  return db<QueuePlace[]>`
    SELECT * FROM (SELECT id, row_number() OVER (PARTITION BY organization_id ORDER BY ${db.unsafe(QUEUE_ORDER)}) AS place,
        count(*) OVER (PARTITION BY organization_id) AS size
      FROM provisioner_jobs WHERE started_at IS NULL AND completed_at IS NULL AND canceled_at IS NULL) waiting
    WHERE id = ANY(${ids})`;
}

/** For each of these pending jobs, the ids of the daemons that may take it. */
export async function daemonsForJobs(db: Db, ids: string[]): Promise<{ id: string; workers: string[] }[]> {
  return db<{ id: string; workers: string[] }[]>`
    SELECT j.id, array_agg(d.id ORDER BY d.name) AS workers
    FROM provisioner_jobs j JOIN provisioner_daemons d ON d.organization_id = j.organization_id
      AND j.provisioner = ANY(d.provisioners) AND provisioner_tags_match(d.tags, j.tags)
      AND terraform_matches(j.terraform_range, d.engine_versions)
    WHERE j.id = ANY(${ids}) AND j.started_at IS NULL AND j.completed_at IS NULL GROUP BY j.id`;
}

export interface JobOfDaemon {
  worker_id: string;
  id: string;
  status: JobStatus;
  template_name: string;
  template_icon: string;
  template_display_name: string;
}

/** The latest job of each daemon, among the jobs that have ended or among those that have not. */
export async function latestJobsOfDaemons(db: Db, daemonIds: string[], ended: boolean): Promise<JobOfDaemon[]> {
  return db<JobOfDaemon[]>`
    SELECT latest.worker_id, latest.id, latest.job_status AS status, coalesce(t.name, '') AS template_name,
      coalesce(t.icon, '') AS template_icon, coalesce(t.display_name, '') AS template_display_name
    FROM unnest(${daemonIds}::uuid[]) AS daemon (id) JOIN LATERAL (
      SELECT * FROM provisioner_jobs j WHERE j.worker_id = daemon.id AND (j.completed_at IS NOT NULL) = ${ended}
      ORDER BY coalesce(j.completed_at, j.started_at) DESC LIMIT 1) latest ON true
    LEFT JOIN workspace_builds b ON b.job_id = latest.id
    LEFT JOIN template_versions v
      ON v.id = coalesce(b.template_version_id, (latest.input ->> 'template_version_id')::uuid)
    LEFT JOIN templates t ON t.id = v.template_id`;
}
