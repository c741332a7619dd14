// The files of the modules that Terraform fetched for a template version, as one tar. A daemon sends them inside its
// result. When the result would be too large, it uploads them before, and the result names them by hash.

import { createHash } from 'node:crypto';
import { AppError } from '@ropewalk/kit';
import type { Module } from '@ropewalk/wire/proto/provisioner';
import type { CompletedJob_TemplateImport } from '@ropewalk/wire/proto/provisionerd';
import { authorize } from '../../authz/authorize.ts';
import type { Db, Tx } from '../../db/connect.ts';
import { fileByHash, fileData, insertFile } from '../../db/queries/files.ts';
import {
  ALL_OWNER_SECRETS,
  NO_OWNER_SECRETS,
  type OwnerSecrets,
  ownerSecretsNamedIn,
} from '../evaluate/owner-secrets.ts';
import { NIL_UUID } from '../values/ids.ts';

/** The largest archive that a daemon may upload or send inline. */
export const MAX_MODULE_BYTES = 100 * 1024 * 1024;

export interface ModuleFiles {
  /** Undefined when the server does not have the files. */
  fileId: string | undefined;
  /** The tar. Undefined when the server does not have the files. */
  archive: Buffer | undefined;
  /** Whether Terraform fetched modules whose files the server does not have. */
  missing: boolean;
  /** The secrets that the modules name, or may name. */
  secrets: OwnerSecrets;
  /** Whether the modules have parameters, or may have some. */
  parameters: boolean;
}

/** Modules that the server cannot search may name every secret. */
const NOT_KEPT: ModuleFiles = {
  fileId: undefined,
  archive: undefined,
  missing: true,
  secrets: ALL_OWNER_SECRETS,
  parameters: true,
};

const SERVER = { actor: { kind: 'system', name: 'module files' } } as const;

/** Stores a module archive once per content. It belongs to no person. */
export async function storeModuleArchive(db: Db, data: Uint8Array, hash: string): Promise<string> {
  const owner = authorize(SERVER, 'create', { type: 'file', ownerId: NIL_UUID });
  const { id } = await insertFile(db, owner, { hash, mimetype: 'application/x-tar', data });
  return id;
}

/**
 * Stores the module files of an import, or finds those that were uploaded before.
 * @throws AppError `invalid` when inline files do not have the announced hash
 */
export async function keepModuleFiles(tx: Tx, done: CompletedJob_TemplateImport): Promise<ModuleFiles> {
  const announced = Buffer.from(done.moduleFilesHash).toString('hex');
  if (done.moduleFiles.length > 0) {
    const hash = createHash('sha256').update(done.moduleFiles).digest('hex');
    // upstream's daemons send no hash with inline files
    if (announced && announced !== hash) {
      throw new AppError('invalid', `The module files have the hash ${hash}, but the daemon announced ${announced}.`);
    }
    if (done.moduleFiles.length > MAX_MODULE_BYTES) return NOT_KEPT;
    const fileId = await storeModuleArchive(tx, done.moduleFiles, hash);
    return kept(fileId, done.moduleFiles);
  }
  const fileId = announced ? await fileByHash(tx, announced, NIL_UUID) : undefined;
  const data = fileId ? await fileData(tx, fileId) : undefined;
  if (fileId && data) return kept(fileId, data);
  if (announced || [...done.startModules, ...done.stopModules].some(isFetched)) return NOT_KEPT;
  return { fileId: undefined, archive: undefined, missing: false, secrets: NO_OWNER_SECRETS, parameters: false };
}

const kept = (fileId: string, archive: Uint8Array): ModuleFiles => ({
  fileId,
  archive: Buffer.from(archive.buffer, archive.byteOffset, archive.byteLength),
  missing: false,
  secrets: ownerSecretsNamedIn(archive),
  parameters: mentionsParameters(archive),
});

/** Whether the files of a tar mention parameters. A mention in a comment counts, too. */
export const mentionsParameters = (archive: Uint8Array): boolean =>
  Buffer.from(archive.buffer, archive.byteOffset, archive.byteLength).includes('coder_parameter');

/** Modules inside the template have relative sources. Terraform fetches all others, absolute paths included. */
function isFetched({ source }: Module): boolean {
  return !/^\.\.?[\\/]/.test(source);
}
