import type { Db } from '../connect.ts';

export interface FileRow {
  id: string;
  hash: string;
  mimetype: string;
  data: Buffer;
  created_by: string;
  created_at: Date;
}

export async function fileById(db: Db, id: string): Promise<FileRow | undefined> {
  const [row] = await db<FileRow[]>`SELECT * FROM files WHERE id = ${id}`;
  return row;
}

/** The id of a person's file with this content. */
export async function fileByHash(db: Db, hash: string, createdBy: string): Promise<string | undefined> {
  const [row] = await db<{ id: string }[]>`SELECT id FROM files WHERE hash = ${hash} AND created_by = ${createdBy}`;
  return row?.id;
}

/** Stores bytes once per content and person; says whether they were there before. */
export async function insertFile(
  db: Db,
  file: { hash: string; mimetype: string; data: Uint8Array; created_by: string },
): Promise<{ id: string; created: boolean }> {
  const [made] = await db<{ id: string }[]>`
    INSERT INTO files (hash, mimetype, data, created_by)
    VALUES (${file.hash}, ${file.mimetype}, ${file.data}, ${file.created_by})
    ON CONFLICT (hash, created_by) DO NOTHING RETURNING id`;
  if (made) return { id: made.id, created: true };
  return { id: (await fileByHash(db, file.hash, file.created_by))!, created: false };
}
