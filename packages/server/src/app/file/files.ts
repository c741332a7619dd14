import type { UploadResponse } from '@platform/contract';
import { AppError } from '@platform/kit';
import { authorize } from '../../authz/authorize.ts';
import { notFound } from '../../authz/not-found.ts';
import { fileById, insertFile } from '../../db/queries/files.ts';
import type { Ctx } from '../context.ts';
import { isUuid } from '../ids.ts';
import { sha256 } from '../token.ts';
import { readTar, readZip, writeTar, writeZip } from './archive.ts';

const TAR = 'application/x-tar';
const ZIP = new Set(['application/zip', 'application/x-zip-compressed']);

/** Stores a template's archive, a zip as a tar. The same bytes of the same person are one file. */
export async function uploadFile(
  ctx: Ctx,
  contentType: string,
  data: Uint8Array,
): Promise<{ response: UploadResponse; created: boolean }> {
  const actorId = ctx.actor.kind === 'user' ? ctx.actor.id : '';
  authorize(ctx, 'create', { type: 'file', ownerId: actorId });
  const type = contentType.split(';')[0]!.trim().toLowerCase();
  let tar: Uint8Array;
  if (type === TAR) {
    await readTar(data); // refuses what would not unpack safely
    tar = data;
  } else if (ZIP.has(type)) tar = await writeTar(await readZip(data));
  else
    throw new AppError('invalid', `Unsupported content type: ${JSON.stringify(type)}.`, {
      detail: `Send ${TAR} or application/zip.`,
    });
  const { id, created } = await insertFile(ctx.sql, {
    hash: sha256(tar).toString('hex'),
    mimetype: TAR,
    data: tar,
    created_by: actorId,
  });
  return { response: { hash: id }, created };
}

/** The bytes of an upload, as the tar that is kept or as a zip. */
export async function downloadFile(
  ctx: Ctx,
  id: string,
  format: string,
): Promise<{ contentType: string; data: Uint8Array }> {
  if (!isUuid(id)) throw new AppError('invalid', 'File id must be a valid UUID.');
  if (format !== '' && format !== 'zip') throw new AppError('invalid', 'Only conversion to ZIP format is supported.');
  const file = await fileById(ctx.sql, id);
  if (!file) throw notFound();
  authorize(ctx, 'read', { type: 'file', ownerId: file.created_by });
  if (format === 'zip') return { contentType: 'application/zip', data: await writeZip(await readTar(file.data)) };
  return { contentType: file.mimetype, data: file.data };
}
