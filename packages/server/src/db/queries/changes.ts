// The facts about changed objects that decide who sees the changes: a few columns for many ids together.

import type { Db } from '../connect.ts';
import type { Acls, JobType } from '../rows.ts';

type Acl = Record<string, string>;

export interface ChangedWorkspace extends Acls {
  id: string;
  owner_id: string;
  organization_id: string;
  template_id: string;
  dormant_at: Date | null;
}

export async function changedWorkspaces(db: Db, ids: string[]): Promise<ChangedWorkspace[]> {
  return db<ChangedWorkspace[]>`
    SELECT id, owner_id, organization_id, template_id, dormant_at, user_acl, group_acl FROM workspaces WHERE id = ANY(${ids}::uuid[])`;
}

export interface ChangedTemplate {
  id: string;
  organization_id: string;
  user_acl: Acl;
  group_acl: Acl;
}

export async function changedTemplates(db: Db, ids: string[]): Promise<ChangedTemplate[]> {
  return db<ChangedTemplate[]>`
    SELECT id, organization_id, user_acl, group_acl FROM templates WHERE id = ANY(${ids}::uuid[])`;
}

/** A version without a template has no lists of permitted users and groups. */
export interface ChangedVersion {
  id: string;
  organization_id: string;
  template_id: string | null;
  user_acl: Acl | null;
  group_acl: Acl | null;
}

export async function changedVersions(db: Db, ids: string[]): Promise<ChangedVersion[]> {
  return db<ChangedVersion[]>`
    SELECT v.id, v.organization_id, v.template_id, t.user_acl, t.group_acl
    FROM template_versions v LEFT JOIN templates t ON t.id = v.template_id WHERE v.id = ANY(${ids}::uuid[])`;
}

export interface ChangedJob {
  id: string;
  type: JobType;
  organization_id: string;
  initiator_id: string;
  worker_id: string | null;
  workspace_build_id: string | null;
  workspace_id: string | null;
  owner_id: string | null;
  dormant_at: Date | null;
  /** The lists of the workspace. Those below are the template's. */
  workspace_user_acl: Acl | null;
  workspace_group_acl: Acl | null;
  template_version_id: string | null;
  template_id: string | null;
  user_acl: Acl | null;
  group_acl: Acl | null;
}

export async function changedJobs(db: Db, ids: string[]): Promise<ChangedJob[]> {
  return db<ChangedJob[]>`
    SELECT j.id, j.type, j.organization_id, j.initiator_id, j.worker_id, b.id AS workspace_build_id,
      w.id AS workspace_id, w.owner_id, w.dormant_at, w.user_acl AS workspace_user_acl,
      w.group_acl AS workspace_group_acl, v.id AS template_version_id, t.id AS template_id, t.user_acl, t.group_acl
    FROM unnest(${ids}::uuid[]) AS wanted (id)
    -- each by its id: a plan made while the table was small would read the whole table
    CROSS JOIN LATERAL (SELECT * FROM provisioner_jobs WHERE id = wanted.id OFFSET 0) j
    LEFT JOIN workspace_builds b ON b.job_id = j.id
    LEFT JOIN workspaces w ON w.id = b.workspace_id
    LEFT JOIN template_versions v ON v.id = coalesce(b.template_version_id, (j.input ->> 'template_version_id')::uuid)
    LEFT JOIN templates t ON t.id = v.template_id`;
}
