// What the evaluation of a version's parameters needs.

import type { Db } from '../connect.ts';
import type { JobStatus } from '../rows.ts';

export interface PreviewSource {
  version_id: string;
  organization_id: string;
  job_status: JobStatus;
  /** The archive of the template. */
  file_id: string;
  /** The archive of the modules that Terraform fetched. */
  module_files_id: string | null;
  /** The API version of the daemon that imported the version. Empty if it is not known. */
  provisionerd_version: string;
  /** Whether the template or a fetched module may have parameters. */
  has_parameters: boolean;
}

export async function previewSource(db: Db, versionId: string): Promise<PreviewSource | undefined> {
  const [row] = await db<PreviewSource[]>`
    SELECT v.id AS version_id, v.organization_id, j.job_status, j.file_id, t.module_files_id,
      coalesce(t.provisionerd_version, '') AS provisionerd_version,
      coalesce(t.has_parameters, true) AS has_parameters
    FROM template_versions v JOIN provisioner_jobs j ON j.id = v.job_id
    LEFT JOIN template_version_terraform_values t ON t.template_version_id = v.id WHERE v.id = ${versionId}`;
  return row;
}

/** The data sources that the plan of an import has read, as JSON text in the form of a whole plan. */
export async function plannedValues(db: Db, versionId: string): Promise<string | undefined> {
  const [row] = await db<{ plan: string }[]>`
    SELECT jsonb_build_object('prior_state', cached_plan -> 'prior_state')::text AS plan
    FROM template_version_terraform_values WHERE template_version_id = ${versionId}`;
  return row?.plan;
}

export interface PreviewOwnerRow {
  id: string;
  name: string;
  full_name: string;
  email: string;
  login_type: string;
  ssh_public_key: string;
  /** In the version's organization, with Everyone. */
  groups: string[];
  roles: string[];
  organization_roles: string[];
  is_member: boolean;
}

/** A person as the templates of an organization see the owner of a workspace. */
export async function previewOwner(
  db: Db,
  ownerId: string,
  organizationId: string,
): Promise<PreviewOwnerRow | undefined> {
  const [row] = await db<PreviewOwnerRow[]>`
    SELECT u.id, u.username AS name, u.name AS full_name, u.email, u.login_type, u.rbac_roles AS roles,
      CASE WHEN m.user_id IS NULL THEN '{}' ELSE m.roles || (SELECT default_org_member_roles FROM organizations WHERE id = ${organizationId})
        END AS organization_roles, m.user_id IS NOT NULL AND NOT u.deleted AS is_member, coalesce(k.public_key, '') AS ssh_public_key,
      ARRAY(SELECT g.name FROM all_group_members gm JOIN groups g ON g.id = gm.group_id
        WHERE gm.user_id = u.id AND gm.organization_id = ${organizationId} ORDER BY g.name) AS groups
    FROM users u LEFT JOIN organization_members m ON m.user_id = u.id AND m.organization_id = ${organizationId}
    LEFT JOIN git_ssh_keys k ON k.user_id = u.id WHERE u.id = ${ownerId}`;
  return row;
}
