import { create } from '@bufbuild/protobuf';
import { AppError } from '@ropewalk/kit';
import type { DrpcContext } from '@ropewalk/wire/drpc';
import { type AcquiredJob, FailedJobSchema } from '@ropewalk/wire/proto/provisionerd';
import { describeUnexpected } from '../../app/context/unexpected.ts';
import { failJob } from '../../app/job/complete.ts';
import { acquiredJobMessage } from '../../app/job/message.ts';
import type { JobQueue } from '../../app/job/queue.ts';
import { withoutCredential } from '../../app/provisioner/credential.ts';
import { INTERNAL_ERROR, isPgError, isTransient } from '../../db/connect.ts';
import type { Owned, Ownership } from '../../db/owned.ts';
import { fetchesModules, frozenIdOf } from '../../db/queries/frozen-versions.ts';
import type { JobRow } from '../../db/rows.ts';
import { whenReachable } from '../../db/when-reachable.ts';
import { createAcquireTurns } from './acquire-turns.ts';
import { MAX_OWN_MESSAGE_BYTES } from './budgets.ts';
import type { DaemonParts } from './daemon-parts.ts';
import type { OwnedJobs } from './owned-jobs.ts';
import type { Revocation } from './revocation.ts';

/** The longest message that upstream's daemons accept. */
const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;
/** How long a unary acquire waits. Daemons that use it call it again and again. */
const UNARY_ACQUIRE_MS = 5_000;

interface Acquired {
  job: JobRow;
  message: AcquiredJob;
  /** Of the template version. Empty for upstream's daemons. */
  frozenId: string;
  /** Whether the build fetches its modules again. False for upstream's daemons, which always do. */
  fetchModules: boolean;
  /** The message did not reach the daemon. */
  lost(): void;
}

/** The calls with which a daemon acquires jobs: two of upstream's, and `acquire` of our own daemons. */
export function acquireCalls(parts: DaemonParts, queue: JobQueue, jobs: OwnedJobs, revocation: Revocation) {
  const { services, metrics, daemon, worker, ours, log, ended } = parts;
  const turns = createAcquireTurns();
  let isFirst = true;
  for (const signal of [revocation.signal, ended]) {
    signal.addEventListener('abort', () => turns.close(signal.reason), { once: true });
  }

  /** The next job for this daemon. Undefined if the daemon stops waiting, which `leave` makes it do. */
  async function acquire(call: AbortSignal, begun: (leave: () => void) => void): Promise<Acquired | undefined> {
    if (daemon.finishes)
      throw new AppError('forbidden', 'The server of this daemon is gone, so the daemon only finishes its jobs.');
    const turn = await turns.begin(call);
    if (!turn) return undefined;
    let job: Owned<JobRow>;
    let own: Ownership;
    try {
      await jobs.checkConfirmed();
      if (ours && isFirst) await jobs.putBackUnreceived();
      isFirst = false;
      begun(turn.leave);
      job = await queue.next(worker, turn.signal);
      own = jobs.ownership(job.id, job.acquire_epoch);
      if (turn.signal.aborted) {
        await jobs.putBack(own);
        return undefined;
      }
      jobs.add(own, job);
    } catch (err) {
      if (turn.signal.aborted) return undefined;
      throw err;
    } finally {
      turn.end();
    }
    try {
      return await whenReachable(() => prepare(job, own, call), {
        signal: call,
        onWait: (wait_ms) =>
          log.debug('the database is unreachable: an acquired job waits', { job_id: job.id, wait_ms }),
      });
    } catch (err) {
      // the daemon has left, or the database stays away. Damaged data would fail at the next daemon, too.
      if (call.aborted || (isTransient(err) && !isPgError(err, INTERNAL_ERROR))) {
        await jobs.putBack(own);
        if (call.aborted) return undefined;
        throw err;
      }
      jobs.remove(job.id);
      const { message, detail } = describeUnexpected(err, log, { job_id: job.id });
      const error = ['The job could not be handed to a daemon:', message, detail].filter(Boolean).join(' ');
      await whenReachable(() => failJob(services, own, create(FailedJobSchema, { jobId: job.id, error })));
      throw err;
    }
  }

  /** The message of a job that was taken from the queue. Undefined if the daemon may not have the job any more. */
  async function prepare(job: Owned<JobRow>, own: Ownership, call: AbortSignal): Promise<Acquired | undefined> {
    const isBuild = job.type === 'workspace_build';
    const [gone, message, frozenId, fetchModules] = await Promise.all([
      withoutCredential(services, [daemon]),
      acquiredJobMessage(services, job),
      ours && job.type !== 'template_version_import' ? frozenIdOf(services.sql, job) : '',
      ours && isBuild && fetchesModules(services.sql, job),
    ]);
    if (gone.has(daemon.id) || revocation.signal.aborted || call.aborted) {
      await jobs.putBack(own);
      if (gone.has(daemon.id)) await revocation.revoke();
      return undefined;
    }
    const size = message.templateSourceArchive.length + stateSize(message);
    const most = ours ? MAX_OWN_MESSAGE_BYTES : MAX_MESSAGE_BYTES;
    // the other fields are small: 64 KiB are left for them
    if (size > most - 65_536) throw new AppError('too_large', `payload was too big: ${size} > ${most}`);
    metrics.jobAcquired(job);
    return { job, message, frozenId, fetchModules, lost: () => jobs.putBackUnlessConfirmed(own) };
  }

  return {
    upstream: {
      async acquireJob(_request: unknown, call: DrpcContext) {
        let timer: NodeJS.Timeout | undefined;
        try {
          const found = await acquire(call.signal, (leave) => {
            timer = setTimeout(leave, UNARY_ACQUIRE_MS);
          });
          // an abort after this means that the answer did not reach the daemon
          if (found) call.signal.addEventListener('abort', found.lost, { once: true });
          return found?.message ?? {};
        } finally {
          clearTimeout(timer);
        }
      },
      async *acquireJobWithCancel(requests: AsyncIterable<unknown>, call: DrpcContext) {
        call.endWithClose();
        // a message means cancel, and so does the end of the stream
        const found = await acquire(call.signal, (leave) => void firstOf(requests, () => true).then(leave));
        yield* handOver(found, found?.message ?? {});
      },
    },
    ours: {
      async *acquire(requests: AsyncIterable<{ cancel: boolean }>, call: DrpcContext) {
        const found = await acquire(
          call.signal,
          (leave) => void firstOf(requests, (request) => request.cancel).then(leave),
        );
        const leaseMs = BigInt(services.config.provisionerLease);
        const more = found && {
          epoch: BigInt(found.job.acquire_epoch),
          leaseMs,
          frozenId: found.frozenId,
          fetchModules: found.fetchModules,
          requiredVersion: found.job.required_version,
        };
        yield* handOver(found, found ? { job: found.message, ...more } : {});
      },
    },
  };
}

/** Yields the message of a job. If the stream ends before the whole message is written, the job goes back. */
async function* handOver<T>(found: Acquired | undefined, message: T): AsyncGenerator<T> {
  let written = false;
  try {
    yield message;
    written = true;
  } finally {
    if (!written) found?.lost();
  }
}

/** Resolves at the first message that matches, or at the end of the messages. */
async function firstOf<T>(messages: AsyncIterable<T>, matches: (message: T) => boolean): Promise<void> {
  try {
    for await (const message of messages) if (matches(message)) return;
  } catch {
    // an unreadable message ends them, too
  }
}

function stateSize({ type }: AcquiredJob): number {
  return type.case === 'workspaceBuild' ? type.value.state.length : 0;
}
