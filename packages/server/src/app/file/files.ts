import type { UploadResponse } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit';
import { type Allowed, authorize, may } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import { type FileRow, fileByHash, fileById, fileData, insertFile, templatesOfFile } from '../../db/queries/files.ts';
import type { Ctx } from '../context/context.ts';
import { requireUploadRoom } from '../context/limits.ts';
import { type StoredUpload, unpackUpload } from '../evaluate/archive.ts';
import { templateObject } from '../find/template.ts';
import { isUuid } from '../values/ids.ts';

const TAR = 'application/x-tar';
const ZIP = new Set(['application/zip', 'application/x-zip-compressed']);
/** A tar up to this size, in bytes, is read within milliseconds. It has at most 256 entries. */
const SMALL_TAR = 128 * 1024;

/** Stores a template's archive. A zip is converted to a tar. The same bytes from the same person are one file. */
export async function uploadFile(
  ctx: Ctx,
  contentType: string,
  data: Uint8Array,
): Promise<{ response: UploadResponse; created: boolean }> {
  const actorId = ctx.actor.kind === 'user' ? ctx.actor.id : '';
  const owner = authorize(ctx, 'create', { type: 'file', ownerId: actorId });
  const type = contentType.split(';')[0]!.trim().toLowerCase();
  const zip = ZIP.has(type);
  if (type !== TAR && !zip)
    throw new AppError('invalid', `Unsupported content type: ${JSON.stringify(type)}.`, {
      detail: `Send ${TAR} or application/zip.`,
    });
  const { tar, hash } =
    !zip && data.length <= SMALL_TAR
      ? await unpackUpload({ data, zip })
      : await ctx.work.archives.run(
          'unpackUpload',
          { data, zip },
          {
            ...by(ctx, 'Unpacking the archive'),
            bytes: data.length,
          },
        );
  const { id, created } = await storeUpload(ctx, owner, { hash, tar });
  return { response: { hash: id }, created };
}

/** Stores an archive for a person, if the person has room for it. The same bytes are one file. */
export function storeUpload(
  { sql }: Ctx,
  owner: Allowed<'create', { type: 'file'; ownerId: string }>,
  { hash, tar }: StoredUpload,
): Promise<{ id: string; created: boolean }> {
  return sql.begin(async (tx) => {
    if (!(await fileByHash(tx, hash, owner.ownerId))) await requireUploadRoom(tx, owner.ownerId, tar.length);
    return insertFile(tx, owner, { hash, mimetype: TAR, data: tar });
  });
}

const by = (ctx: Ctx, what: string) => ({
  person: ctx.actor.kind === 'user' ? ctx.actor.id : '',
  what,
  signal: ctx.signal,
});

/**
 * A file that the actor may read: their own, or the source of a template that they may change. Undefined for any other
 * file, as if it did not exist.
 */
export async function readableFile(ctx: Ctx, id: string): Promise<FileRow | undefined> {
  const file = await fileById(ctx.sql, id);
  if (!file || may(ctx.actor, 'read', { type: 'file', id, ownerId: file.created_by })) return file;
  const templates = await templatesOfFile(ctx.sql, id);
  return templates.some((template) => may(ctx.actor, 'update', templateObject(template))) ? file : undefined;
}

/** The bytes of an upload, as the stored tar or as a zip. */
export async function downloadFile(
  ctx: Ctx,
  id: string,
  format: string,
): Promise<{ contentType: string; data: Uint8Array }> {
  if (!isUuid(id)) throw new AppError('invalid', 'File id must be a valid UUID.');
  if (format !== '' && format !== 'zip') throw new AppError('invalid', 'Only conversion to ZIP format is supported.');
  const file = await readableFile(ctx, id);
  if (!file) throw notFound();
  const data = async () => {
    const found = await fileData(ctx.sql, id);
    if (!found) throw notFound();
    return found;
  };
  if (format === '') return { contentType: file.mimetype, data: await data() };
  const tar = async () => ({ tar: await data() });
  const { zip } = await ctx.work.archives.run('packZip', tar, by(ctx, 'Creating the zip archive'));
  return { contentType: 'application/zip', data: zip };
}
