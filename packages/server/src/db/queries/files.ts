import { AppError } from '@ropewalk/kit';
import type { Allowed } from '../../authz/authorize.ts';
import type { SystemTask } from '../../authz/proofs.ts';
import type { Db, Tx } from '../connect.ts';
import type { JobRow, TemplateRow } from '../rows.ts';
import type { VersionPlace } from './template-versions.ts';
import type { OwnedVersion } from './version-contents.ts';

export interface FileRow {
  id: string;
  hash: string;
  mimetype: string;
  created_by: string;
  /** When it was last uploaded, to the hour. */
  created_at: Date;
}

/** A file without its bytes. */
export async function fileById(db: Db, id: string): Promise<FileRow | undefined> {
  const [row] = await db<FileRow[]>`SELECT id, hash, mimetype, created_by, created_at FROM files WHERE id = ${id}`;
  return row;
}

/** The templates with a version whose source is this file. */
export async function templatesOfFile(
  db: Db,
  id: string,
): Promise<Pick<TemplateRow, 'id' | 'organization_id' | 'user_acl' | 'group_acl'>[]> {
  return db<Pick<TemplateRow, 'id' | 'organization_id' | 'user_acl' | 'group_acl'>[]>`
    SELECT id, organization_id, user_acl, group_acl FROM templates WHERE NOT deleted AND id IN (
      SELECT tv.template_id FROM provisioner_jobs j JOIN template_versions tv ON tv.job_id = j.id
      WHERE j.file_id = ${id} AND j.type = 'template_version_import')`;
}

// Files have up to 100 MiB. The driver converts each value to text of twice its size and back, which takes half a
// second on the main thread for such a file. So files are read and written in pieces.

/** The size of a piece when writing, in bytes. */
const PIECE = 1024 * 1024;
/**
 * The size of a piece when reading, in bytes. A value that is stored compressed is decompressed from its start for each
 * piece.
 */
const READ = 1024 * 1024;

const piece = (db: Db, id: string, at: number) => db<{ data: Buffer; size: number }[]>`
  SELECT substring(data FROM ${at + 1}::int FOR ${READ}) AS data, octet_length(data) AS size FROM files WHERE id = ${id}`;

/** A file's bytes, piece by piece. @throws AppError `not_found` if someone deletes the file meanwhile. */
export async function* filePieces(db: Db, id: string): AsyncGenerator<Buffer> {
  for (let at = 0, size = 1; at < size; ) {
    const [next] = await piece(db, id, at);
    if (!next) throw new AppError('not_found', 'The file no longer exists.');
    size = next.size;
    at += next.data.length;
    yield next.data;
  }
}

/** A file's bytes, in their own buffer. */
export async function fileData(db: Db, id: string): Promise<Buffer<ArrayBuffer> | undefined> {
  const [first] = await piece(db, id, 0);
  if (!first) return undefined;
  const data = Buffer.allocUnsafeSlow(first.size);
  let at = first.data.copy(data);
  while (at < first.size) {
    const [next] = await piece(db, id, at);
    if (!next) return undefined;
    at += next.data.copy(data, at);
  }
  return data;
}

/** What is known of the template in a file since its first import. */
export interface FileTraits {
  /** Which versions of Terraform it requires, for people. Empty: every version. */
  text: string;
  /** The same, as PostgreSQL writes it. Null: every version. */
  range: string | null;
  /** Whether it contains the word `coder_workspace_tags`. Also known of the archives of fetched modules. */
  namesWorkspaceTags: boolean;
}

/**
 * Whether the template in a file may name tags for its workspaces. Undefined if nobody has looked at the file as at a
 * template.
 */
export async function namesWorkspaceTags(db: Db, id: string): Promise<boolean | undefined> {
  const [row] = await db<{ names: boolean | null }[]>`SELECT names_workspace_tags AS names FROM files
    WHERE id = ${id} AND required_version IS NOT NULL`;
  return row?.names ?? undefined;
}

/** Stores what a look at the template in a file found. */
export async function setFileTraits(
  db: Db,
  _importer: VersionPlace,
  id: string,
  { text, range, namesWorkspaceTags: names }: FileTraits,
): Promise<void> {
  await db`UPDATE files SET required_version = ${text}, terraform_range = ${range}::int8multirange,
    names_workspace_tags = ${names} WHERE id = ${id}`;
}

/** Stores whether the archive of fetched modules may name tags for workspaces. */
export async function setNamesWorkspaceTags(db: Db, _version: OwnedVersion, id: string, names: boolean): Promise<void> {
  await db`UPDATE files SET names_workspace_tags = ${names} WHERE id = ${id} AND names_workspace_tags IS NULL`;
}

/** In a FROM: the Terraform versions that a template allows. Those of an imported version include its modules. */
export const requirement = (db: Db, { fileId, versionId }: { fileId: string; versionId?: string | undefined }) => db`(
  SELECT coalesce(v.required_version, f.required_version, '') AS required_version,
    CASE WHEN v.required_version IS NULL THEN f.terraform_range ELSE v.terraform_range END AS terraform_range
  FROM (SELECT ${fileId}::uuid AS id, ${versionId ?? null}::uuid AS version_id) given
  LEFT JOIN files f USING (id)
  LEFT JOIN template_version_terraform_values v ON v.template_version_id = given.version_id) required`;

/** The requirement of an imported version. */
export async function requirementOfVersion(
  db: Db,
  version: { fileId: string; versionId: string },
): Promise<Pick<JobRow, 'required_version' | 'terraform_range'>> {
  const [row] = await db<
    Pick<JobRow, 'required_version' | 'terraform_range'>[]
  >`SELECT * FROM ${requirement(db, version)}`;
  return row!;
}

export interface NewFile {
  hash: string;
  mimetype: string;
  data: Uint8Array;
}

/** The owner of a new file. */
export type FileOwner = Allowed<'create', { type: 'file'; ownerId: string }>;

type OwnedFile = NewFile & { created_by: string };

/** The id of a person's file with this content. */
export async function fileByHash(db: Db, hash: string, createdBy: string): Promise<string | undefined> {
  const [row] = await db<{ id: string }[]>`SELECT id FROM files WHERE hash = ${hash} AND created_by = ${createdBy}`;
  return row?.id;
}

/** A person's files with these contents. */
export async function filesByHash(
  db: Db,
  hashes: readonly string[],
  createdBy: string,
): Promise<{ id: string; hash: string; size: number }[]> {
  return db<{ id: string; hash: string; size: number }[]>`
    SELECT id, hash, octet_length(data) AS size FROM files WHERE hash = ANY(${[...hashes]}) AND created_by = ${createdBy}`;
}

/** The id of the same file if it is already stored. It counts as uploaded now, so that no purge deletes it soon. */
async function uploadedAgain(db: Db, { hash, created_by }: OwnedFile): Promise<string | undefined> {
  const [known] = await db<{ id: string; fresh: boolean }[]>`SELECT id, created_at > now() - interval '1 hour' AS fresh
    FROM files WHERE hash = ${hash} AND created_by = ${created_by}`;
  if (!known || known.fresh) return known?.id;
  const [kept] = await db<{ id: string }[]>`UPDATE files SET created_at = now() WHERE id = ${known.id} RETURNING id`;
  return kept?.id;
}

/** Stores bytes once per content and person. `created` is false if they were stored before. */
export async function insertFile(db: Db, owner: FileOwner, given: NewFile): Promise<{ id: string; created: boolean }> {
  const file = { ...given, created_by: owner.ownerId };
  const known = await uploadedAgain(db, file);
  if (known) return { id: known, created: false };
  const made = file.data.length > PIECE ? await insertInPieces(db, file) : await insertWhole(db, file);
  if (made) return { id: made, created: true };
  return { id: (await fileByHash(db, file.hash, file.created_by))!, created: false };
}

async function insertWhole(db: Db, { hash, mimetype, data, created_by }: OwnedFile): Promise<string | undefined> {
  const [made] = await db<{ id: string }[]>`
    INSERT INTO files (hash, mimetype, data, created_by) VALUES (${hash}, ${mimetype}, ${data}, ${created_by})
    ON CONFLICT (hash, created_by) DO NOTHING RETURNING id`;
  return made?.id;
}

/** Opens its own transaction if `db` is not one. */
function insertInPieces(db: Db, file: OwnedFile): Promise<string | undefined> {
  return 'begin' in db ? db.begin((tx) => insertPieces(tx, file)) : insertPieces(db, file);
}

async function insertPieces(tx: Tx, { hash, mimetype, data, created_by }: OwnedFile): Promise<string | undefined> {
  await tx`CREATE TEMPORARY TABLE IF NOT EXISTS file_pieces (place int NOT NULL, data bytea STORAGE EXTERNAL NOT NULL)
    ON COMMIT DROP`;
  await tx`DELETE FROM file_pieces`;
  for (let at = 0; at < data.length; at += PIECE) {
    await tx`INSERT INTO file_pieces (place, data) VALUES (${at / PIECE}, ${data.subarray(at, at + PIECE)})`;
  }
  const [made] = await tx<{ id: string }[]>`
    INSERT INTO files (hash, mimetype, data, created_by)
    SELECT ${hash}, ${mimetype}, (SELECT string_agg(data, '' ORDER BY place) FROM file_pieces), ${created_by}::uuid
    ON CONFLICT (hash, created_by) DO NOTHING RETURNING id`;
  return made?.id;
}

/** That nothing uses a file `f`. */
const UNUSED = (db: Db) => db`NOT EXISTS (SELECT FROM provisioner_jobs j WHERE j.file_id = f.id)
      AND NOT EXISTS (SELECT FROM template_version_terraform_values v WHERE v.module_files_id = f.id)
      AND NOT EXISTS (SELECT FROM template_version_packages p WHERE p.file_id = f.id)
      AND NOT EXISTS (SELECT FROM template_version_package_parts p WHERE p.file_id = f.id)`;

/** The uploads of a person that no job and no template version references, and their size. */
export async function countUnusedUploads(tx: Tx, ownerId: string): Promise<{ count: number; bytes: number }> {
  const [row] = await tx<{ count: number; bytes: number }[]>`SELECT count(*)::integer AS count,
      coalesce(sum(octet_length(f.data)), 0)::float8 AS bytes
    FROM files f WHERE f.created_by = ${ownerId} AND ${UNUSED(tx)}`;
  return row!;
}

/**
 * Deletes at most this many files that no job and no template version references and that nobody uploaded for so long.
 * Says how many it deleted. A file that a transaction begins to reference meanwhile stays.
 */
export async function deleteUnreferencedFiles(
  db: Db,
  _task: SystemTask,
  { hours, most }: { hours: number; most: number },
): Promise<number> {
  const { count } = await db`DELETE FROM files WHERE id = ANY(ARRAY(SELECT f.id FROM files f
    WHERE f.created_at < now() - ${hours} * interval '1 hour'
      AND ${UNUSED(db)}
    ORDER BY f.created_at LIMIT ${most} FOR UPDATE OF f SKIP LOCKED))`;
  return count;
}
