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
  const [found] = await db<
    { id: string }[]
  >`SELECT id FROM files WHERE hash = ${file.hash} AND created_by = ${file.created_by}`;
  return { id: found!.id, created: false };
}
