import type { Allowed } from '../../authz/authorize.ts';
import type { Db, Tx } from '../connect.ts';
import type { TemplateRow, VersionRow } from '../rows.ts';
import { hasExternalAgent } from './resources.ts';
import { lockTemplate } from './templates.ts';
import type { OwnedVersion } from './version-contents.ts';

/** Columns and tables of a `VersionRow`, up to WHERE. */
const versionColumns = (db: Db) => db`
  v.*, c.username AS created_by_name, c.name AS created_by_full_name, c.avatar_url AS created_by_avatar_url, j.job_status, t.user_acl, t.group_acl,
  t.use_classic_parameter_flow, ${hasExternalAgent(db, 'v')} AS has_external_agent
  FROM template_versions v JOIN users c ON c.id = v.created_by JOIN provisioner_jobs j ON j.id = v.job_id
  LEFT JOIN templates t ON t.id = v.template_id`;

export async function versionById(db: Db, id: string): Promise<VersionRow | undefined> {
  const [row] = await db<VersionRow[]>`SELECT ${versionColumns(db)} WHERE v.id = ${id}`;
  return row;
}

export async function versionByName(db: Db, templateId: string, name: string): Promise<VersionRow | undefined> {
  const [row] = await db<VersionRow[]>`SELECT ${versionColumns(db)}
    WHERE v.template_id = ${templateId} AND lower(v.name) = lower(${name})`;
  return row;
}

/** The version of the same template that was created before this one. */
export async function previousVersion(db: Db, version: VersionRow): Promise<VersionRow | undefined> {
  const [row] = await db<VersionRow[]>`SELECT ${versionColumns(db)}
    WHERE v.template_id = ${version.template_id} AND (v.created_at, v.id) < (
      SELECT a.created_at, a.id FROM template_versions a WHERE a.id = ${version.id})
    ORDER BY v.created_at DESC, v.id DESC LIMIT 1`;
  return row;
}

/** Locks the version until the transaction ends. */
export async function lockVersion(tx: Tx, id: string): Promise<VersionRow | undefined> {
  const [row] = await tx<VersionRow[]>`SELECT ${versionColumns(tx)} WHERE v.id = ${id} FOR UPDATE OF v`;
  return row;
}

export async function isVersionOf(db: Db, id: string, templateId: string): Promise<boolean> {
  const rows = await db`SELECT 1 FROM template_versions WHERE id = ${id} AND template_id = ${templateId}`;
  return rows.length > 0;
}

export interface VersionFilter {
  /** Whether to include archived versions. */
  archived: boolean;
  /** Only versions that were created after this one. */
  afterId: string | null;
  limit: number;
  offset: number;
}

/** Oldest first. */
export async function versionsOfTemplate(
  db: Db,
  templateId: string,
  { archived, afterId, limit, offset }: VersionFilter,
): Promise<VersionRow[]> {
  return db<VersionRow[]>`SELECT ${versionColumns(db)} WHERE v.template_id = ${templateId}
    AND (${archived} OR NOT v.archived)
    AND (${afterId}::uuid IS NULL
      OR (v.created_at, v.id) > (SELECT a.created_at, a.id FROM template_versions a WHERE a.id = ${afterId}::uuid))
    ORDER BY v.created_at, v.id LIMIT ${limit} OFFSET ${offset}`;
}

/** Where a version is created: in a template, or in an organization for a template that is created later. */
export type VersionPlace =
  | Allowed<'update', TemplateRow>
  | Allowed<'create', { type: 'template'; organizationId: string }>;

export interface NewVersion {
  id: string;
  name: string;
  message: string;
  job_id: string;
  created_by: string;
}

export async function insertVersion(tx: Tx, place: VersionPlace, version: NewVersion): Promise<void> {
  const [templateId, organizationId] = 'id' in place ? [place.id, place.organization_id] : [null, place.organizationId];
  await tx`INSERT INTO template_versions (id, template_id, organization_id, name, message, job_id, created_by)
    VALUES (${version.id}, ${templateId}, ${organizationId}, ${version.name}, ${version.message}, ${version.job_id},
      ${version.created_by})`;
}

export async function setVersionName(
  tx: Tx,
  version: Allowed<'update', VersionRow>,
  { name, message }: { name: string; message: string },
): Promise<void> {
  await tx`UPDATE template_versions SET name = ${name}, message = ${message}, updated_at = now() WHERE id = ${version.id}`;
}

export async function clearVersionArchived(tx: Tx, version: Allowed<'update', VersionRow>): Promise<void> {
  await tx`UPDATE template_versions SET archived = false, updated_at = now() WHERE id = ${version.id}`;
}

/** Archives the unused versions of a template, or only those whose import failed. Returns their ids. */
export async function archiveUnusedVersions(
  tx: Tx,
  template: Allowed<'update', TemplateRow>,
  { failedOnly }: { failedOnly: boolean },
): Promise<string[]> {
  return archive(tx, template.id, { failedOnly });
}

/** Archives this version if it is unused. Returns whether it was. */
export async function archiveUnusedVersion(tx: Tx, version: Allowed<'update', VersionRow>): Promise<boolean> {
  if (!version.template_id) return false;
  return (await archive(tx, version.template_id, { versionId: version.id })).length > 0;
}

/** An unused version is not active, no workspace has it in its latest build, and its import has ended. */
async function archive(
  tx: Tx,
  templateId: string,
  { versionId = null, failedOnly = false }: { versionId?: string | null; failedOnly?: boolean },
): Promise<string[]> {
  await lockTemplate(tx, templateId);
  const rows = await tx<{ id: string }[]>`
    UPDATE template_versions v SET archived = true, updated_at = now()
    FROM provisioner_jobs j, templates t
    WHERE j.id = v.job_id AND t.id = v.template_id AND t.id = ${templateId} AND NOT v.archived
      AND v.id <> t.active_version_id AND j.completed_at IS NOT NULL
      AND (${versionId}::uuid IS NULL OR v.id = ${versionId}::uuid)
      AND (NOT ${failedOnly} OR j.job_status <> 'succeeded')
      AND NOT EXISTS (
        SELECT 1 FROM workspaces w JOIN LATERAL (
          SELECT b.template_version_id FROM workspace_builds b WHERE b.workspace_id = w.id
          ORDER BY b.build_number DESC LIMIT 1) latest ON true
        WHERE w.template_id = t.id AND NOT w.deleted AND latest.template_version_id = v.id)
    RETURNING v.id`;
  return rows.map((row) => row.id);
}

export interface PresetRow {
  id: string;
  name: string;
  description: string;
  icon: string;
  is_default: boolean;
  desired_instances: number | null;
  parameters: Record<string, string>;
}

export async function versionPresets(db: Db, versionId: string): Promise<PresetRow[]> {
  return db<PresetRow[]>`SELECT * FROM template_version_presets WHERE template_version_id = ${versionId}
    ORDER BY is_default DESC, name`;
}

/** What the API shows instead of a sensitive value, as upstream does. A client that sends it back keeps the value. */
export const REDACTED = '*redacted*';

export interface VariableRow {
  name: string;
  description: string;
  type: string;
  required: boolean;
  sensitive: boolean;
  value: string;
  default_value: string;
}

/** In the author's order. The values of sensitive variables are redacted. */
export async function versionVariables(db: Db, versionId: string): Promise<VariableRow[]> {
  return db<VariableRow[]>`
    SELECT name, description, type, required, sensitive, CASE WHEN sensitive THEN ${REDACTED} ELSE value END AS value,
      CASE WHEN sensitive THEN ${REDACTED} ELSE default_value END AS default_value
    FROM template_version_variables WHERE template_version_id = ${versionId} ORDER BY position, name`;
}

export interface VersionProvider {
  provider_id: string;
  optional: boolean;
}

/** The external auth providers that the version uses, by id. */
export async function versionProviders(db: Db, versionId: string): Promise<VersionProvider[]> {
  return db<VersionProvider[]>`SELECT provider_id, optional FROM template_version_external_auth
    WHERE template_version_id = ${versionId} ORDER BY provider_id`;
}

/** Stores an external auth provider that the import of a version found. */
export async function insertExternalAuth(
  tx: Tx,
  version: OwnedVersion,
  provider: { id: string; optional: boolean },
): Promise<void> {
  await tx`INSERT INTO template_version_external_auth (template_version_id, provider_id, optional)
    VALUES (${version.version_id}, ${provider.id}, ${provider.optional}) ON CONFLICT DO NOTHING`;
}
