// What imports have fixed for the builds of their versions: docs/decisions/0046-frozen-versions.md.

import type { Db, Tx } from '../connect.ts';
import type { Owned, Ownership } from '../owned.ts';
import type { JobRow, JobType } from '../rows.ts';

export interface FrozenRow {
  id: string;
  platform: string;
  engine: string;
  attached: boolean;
  lock_file: string;
}

export interface PackageRow {
  address: string;
  version: string;
  checksum: string;
  /** The files of its archive, in order. Empty if the server does not have it. */
  files: string[];
}

export type JobVersion = Owned<{ version_id: string; organization_id: string; type: JobType }>;

/** The template version of a job that this daemon owns. */
export async function versionOfOwnJob(db: Db, own: Ownership): Promise<JobVersion | undefined> {
  const [row] = await db<JobVersion[]>`
    SELECT coalesce(b.template_version_id, (j.input ->> 'template_version_id')::uuid) AS version_id, j.organization_id, j.type
    FROM provisioner_jobs j LEFT JOIN workspace_builds b ON b.job_id = j.id
    WHERE j.id = ${own.jobId} AND j.worker_id = ${own.workerId} AND j.acquire_epoch = ${own.epoch}
      AND j.completed_at IS NULL`;
  return row;
}

/** The id of the frozen version that a job builds or plans. Empty if its import has fixed nothing. */
export async function frozenIdOf(db: Db, job: Owned<JobRow>): Promise<string> {
  const [row] = await db<{ id: string }[]>`
    SELECT f.id FROM template_version_frozen f WHERE f.template_version_id = coalesce(
      (SELECT b.template_version_id FROM workspace_builds b WHERE b.job_id = ${job.id}),
      ${job.input.template_version_id ?? null}::uuid)`;
  return row?.id ?? '';
}

/** Whether the template of a build has it fetch its modules again. */
export async function fetchesModules(db: Db, job: Owned<JobRow>): Promise<boolean> {
  const [row] = await db<{ fetches: boolean }[]>`SELECT t.disable_module_cache AS fetches
    FROM workspace_builds b JOIN workspaces w ON w.id = b.workspace_id JOIN templates t ON t.id = w.template_id
    WHERE b.job_id = ${job.id}`;
  return row?.fetches ?? false;
}

export async function frozenVersion(db: Db, versionId: string): Promise<FrozenRow | undefined> {
  const [row] = await db<FrozenRow[]>`SELECT id, platform, engine, attached, lock_file FROM template_version_frozen
    WHERE template_version_id = ${versionId}`;
  return row;
}

/** A stored file of a frozen version. */
export interface FrozenFile {
  id: string;
  hash: string;
  size: number;
}

/** The archive of the modules of a version. */
export async function frozenModules(db: Db, versionId: string): Promise<FrozenFile | undefined> {
  const [row] = await db<FrozenFile[]>`SELECT f.id, f.hash, octet_length(f.data) AS size
    FROM template_version_terraform_values v JOIN files f ON f.id = v.module_files_id
    WHERE v.template_version_id = ${versionId}`;
  return row;
}

/** The packages of a version with their stored files, in order. */
export async function frozenPackages(
  db: Db,
  versionId: string,
): Promise<(Omit<PackageRow, 'files'> & { files: FrozenFile[] })[]> {
  return db<(Omit<PackageRow, 'files'> & { files: FrozenFile[] })[]>`
    SELECT p.address, p.version, p.checksum, coalesce((
      SELECT jsonb_agg(jsonb_build_object('id', f.id, 'hash', f.hash, 'size', octet_length(f.data)) ORDER BY part.place)
      FROM (${partsOf(db)}) part JOIN files f ON f.id = part.file_id), '[]') AS files
    FROM template_version_packages p WHERE p.template_version_id = ${versionId} ORDER BY p.address`;
}

/** The files of a package `p`. */
const partsOf = (db: Db) => db`SELECT 0 AS place, p.file_id WHERE p.file_id IS NOT NULL
  UNION ALL SELECT more.place, more.file_id FROM template_version_package_parts more
  WHERE more.template_version_id = p.template_version_id AND more.address = p.address`;

/** The files of packages with these checksums that other versions of the organization have. */
export async function knownPackages(
  db: Db,
  organizationId: string,
  checksums: string[],
): Promise<Pick<PackageRow, 'checksum' | 'files'>[]> {
  return db<Pick<PackageRow, 'checksum' | 'files'>[]>`
    SELECT DISTINCT ON (p.checksum) p.checksum,
      ARRAY(SELECT part.file_id FROM (${partsOf(db)}) part ORDER BY part.place) AS files
    FROM template_version_packages p JOIN template_versions v ON v.id = p.template_version_id
    WHERE p.checksum = ANY(${checksums}) AND p.file_id IS NOT NULL AND v.organization_id = ${organizationId}`;
}

/** Stores what an import has fixed. An import that runs again replaces what the earlier try stored. */
export async function storeFrozen(
  tx: Tx,
  { version_id }: JobVersion,
  frozen: FrozenRow,
  packages: PackageRow[],
): Promise<void> {
  await tx`DELETE FROM template_version_frozen WHERE template_version_id = ${version_id}`;
  await tx`INSERT INTO template_version_frozen ${tx({ ...frozen, template_version_id: version_id })}`;
  for (const { files, ...one } of packages) {
    const [first = null, ...more] = files;
    await tx`INSERT INTO template_version_packages ${tx({ ...one, file_id: first, template_version_id: version_id })}`;
    await tx`INSERT INTO template_version_package_parts
      SELECT ${version_id}::uuid, ${one.address}, part.place, part.file_id
      FROM unnest(${more}::uuid[]) WITH ORDINALITY AS part (file_id, place)`;
  }
}
