import { AppError } from '@ropewalk/kit';
import type { FrozenFileRequest, FrozenRequest, KeepFrozenRequest } from '@ropewalk/wire/proto/platform_provisioner';
import { frozenFile, frozenOf, keepFrozen, mostPackageBytes } from '../../app/job/frozen.ts';
import { patient } from '../patience.ts';
import type { DaemonParts } from './daemon-parts.ts';
import type { OwnedJobs } from './owned-jobs.ts';

/** The calls about the providers and modules that an import has fixed for its template version. */
export function frozenCalls({ services, log }: DaemonParts, jobs: OwnedJobs) {
  const own = ({ jobId, epoch }: { jobId: string; epoch: bigint }) => jobs.ownership(jobId, Number(epoch));
  const unary = {
    async keepFrozen(request: KeepFrozenRequest) {
      if (!request.version) throw new AppError('invalid', 'The request has no frozen version.');
      const missing = await keepFrozen(services, own(request), request.version);
      // 0 means that the server knows no limit
      return { missing, mostPackageBytes: BigInt(Math.max(1, mostPackageBytes(services))) };
    },
    frozen: (request: FrozenRequest) => frozenOf(services, own(request)),
  };
  return {
    ...patient(unary, log),
    async *frozenFile(request: FrozenFileRequest) {
      for await (const data of frozenFile(services, own(request), Buffer.from(request.hash).toString('hex')))
        yield { data };
    },
  };
}
