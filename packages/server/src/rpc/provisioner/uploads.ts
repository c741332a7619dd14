import { createHash } from 'node:crypto';
import { AppError } from '@ropewalk/kit';
import type { DrpcContext, MessageBudget } from '@ropewalk/wire/drpc';
import type { UploadFileRequest } from '@ropewalk/wire/proto/provisionerd';
import { MAX_MODULE_BYTES, storeModuleArchive } from '../../app/job/module-files.ts';
import { whenReachable } from '../../db/when-reachable.ts';
import type { DaemonParts } from './daemon-parts.ts';
import type { OwnedJobs } from './owned-jobs.ts';

/**
 * The call with which a daemon uploads the module files of a template version. It waits while the database is
 * unavailable: an upstream daemon does not repeat an upload, so a failure would cost it its job.
 */
export function uploadCalls({ services, log }: DaemonParts, jobs: OwnedJobs, budget: MessageBudget) {
  /** Aborted when the caller of the latest upload has left. */
  let uploading: AbortSignal | undefined;
  return {
    async uploadFile(requests: AsyncIterable<UploadFileRequest>, { signal }: DrpcContext) {
      if (jobs.size === 0 || uploading?.aborted === false)
        throw new AppError('conflict', 'A daemon can upload one file at a time, and only while it runs a job.');
      uploading = signal;
      let taken = 0;
      const take = (bytes: number) => {
        budget.take(bytes);
        taken += bytes;
      };
      try {
        const { data, hash } = await receive(requests, take);
        await whenReachable(() => storeModuleArchive(services.sql, data, hash), {
          signal,
          onWait: (wait_ms) => log.debug('the database fails or is unreachable: an upload waits', { wait_ms }),
        });
      } finally {
        // the bytes are in memory until here
        budget.give(taken);
        if (uploading === signal) uploading = undefined;
      }
      return {};
    },
  };
}

/**
 * Receives an upload that arrives in pieces. Calls `take` for the bytes of each.
 * @throws AppError `invalid` if it does not have the announced size and SHA-256
 */
async function receive(
  requests: AsyncIterable<UploadFileRequest>,
  take: (bytes: number) => void,
): Promise<{ data: Buffer; hash: string }> {
  let size = 0;
  let expected: { hash: string; size: number } | undefined;
  const parts: Uint8Array[] = [];
  // piece by piece: hashing 100 MiB in one piece would block everything else for 100 ms
  const sum = createHash('sha256');
  for await (const { type } of requests) {
    if (type.case === 'dataUpload') {
      if (expected || type.value.dataHash.length !== 32)
        throw new AppError('invalid', 'An upload must begin with one message that has its 32-byte hash.');
      expected = { hash: Buffer.from(type.value.dataHash).toString('hex'), size: Number(type.value.fileSize) };
      if (expected.size > MAX_MODULE_BYTES) throw new AppError('too_large', 'The module files are too large.');
    } else if (type.case === 'chunkPiece') {
      if (!expected || type.value.pieceIndex !== parts.length)
        throw new AppError('invalid', 'A piece of the upload is missing.');
      size += type.value.data.length;
      if (size > expected.size) throw new AppError('invalid', 'The upload is larger than announced.');
      take(type.value.data.length);
      parts.push(type.value.data);
      sum.update(type.value.data);
    } else if (type.case === 'error') {
      throw new AppError('invalid', `The daemon could not read the module files: ${type.value.error}`);
    }
    if (expected && size === expected.size) break;
  }
  const data = Buffer.concat(parts);
  const hash = sum.digest('hex');
  if (!expected || size !== expected.size || hash !== expected.hash) {
    throw new AppError('invalid', 'The upload does not have the announced size and hash.');
  }
  return { data, hash };
}
