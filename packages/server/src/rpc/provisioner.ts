import { createHash } from 'node:crypto';
import { AppError, errorText, type Logger } from '@platform/kit';
import { CAPABILITIES_HEADER, formatCapabilities, parseCapabilities } from '@platform/wire/capabilities';
import { type DrpcContext, implement, type MessageBudget, serveDrpc } from '@platform/wire/drpc';
import { LOG_SEQUENCE_KEY, parseLogNumbers } from '@platform/wire/log-sequence';
import { DeliverStateResponse_Outcome, JobControl, JobNotice_Kind } from '@platform/wire/proto/platform_provisioner';
import type { AcquiredJob, UploadFileRequest } from '@platform/wire/proto/provisionerd';
import { ProvisionerDaemon } from '@platform/wire/proto/provisionerd';
import { byteStream, type WebSocketConnection } from '@platform/wire/websocket';
import { YamuxSession } from '@platform/wire/yamux';
import type { BackgroundTask } from '../app/background-task.ts';
import { type Services, systemContext } from '../app/context.ts';
import { requestCancel } from '../app/job/cancel.ts';
import { checkpoint, deliverState } from '../app/job/checkpoint.ts';
import { completeJob, failJob, notOwned } from '../app/job/complete.ts';
import { createLogKeeper, type LogKeeper } from '../app/job/log-keeper.ts';
import { acquiredJobMessage } from '../app/job/message.ts';
import { MOST_MODULE_BYTES, storeModuleArchive } from '../app/job/module-files.ts';
import { putBackJob } from '../app/job/post.ts';
import type { JobQueue } from '../app/job/queue.ts';
import { updateJob } from '../app/job/update.ts';
import { forgetDaemonGroups } from '../app/job/waiting.ts';
import { type JoinedDaemon, withoutCredential } from '../app/provisioner/credential.ts';
import { connectionOf, workerOf } from '../app/provisioner/join.ts';
import { systemTask } from '../authz/proofs.ts';
import { isUnreachable } from '../db/connect.ts';
import { setPlannedCost } from '../db/queries/builds.ts';
import { type DaemonRow, daemonConnected, daemonDisconnected } from '../db/queries/daemons.ts';
import { insertJobLogs, noteInJobLog } from '../db/queries/job-logs.ts';
import { jobsOfWorker, type Owned, type Ownership, ownershipOf, touchJob } from '../db/queries/job-ownership.ts';
import { type JobRow, jobById } from '../db/queries/jobs.ts';
import { type Metrics, noMetrics } from '../metrics/metrics.ts';
import { createAcquireTurns } from './acquire-turns.ts';
import { DAEMON_BOUNDS } from './bounds.ts';
import { createDaemonBudgets, type DaemonBudget, OUR_MOST_MESSAGE_BYTES } from './daemon-budgets.ts';
import { daemonUpkeepTasks, type Peer } from './daemon-upkeep.ts';
import { patient } from './patience.ts';
import { showNul } from './show-nul.ts';

const MOST_MESSAGE_BYTES = 4 * 1024 * 1024;
/** Calls of one connection at a time: each may have a window of bytes waiting here that no budget counts. */
const MOST_CALLS = 32;
/** One of ours that has not said anything of a job for so long has dropped it. */
const UNCONFIRMED_MS = 30_000;
/** After a revocation a running job has this long to end and deliver its state; Terraform itself has three minutes. */
const LAST_STATE_MS = 4 * 60_000;
/** How long the old way to acquire waits, which its daemons call again and again. */
const UNARY_ACQUIRE_MS = 5_000;
const EPOCH_KEY = 'platform-job-epoch';

export interface DaemonConnections {
  /** Serves one daemon until its connection ends. */
  serve(
    connection: WebSocketConnection,
    daemon: JoinedDaemon,
    offered: string | string[] | undefined,
    room: DaemonBudget,
  ): Promise<void>;
  /** Room for a connection; `serve` gives it back. @throws AppError `rate_limited` where there is none. */
  reserve(daemon: DaemonRow, offered: string | string[] | undefined): DaemonBudget;
  /** What keeps the rows, leases and credentials of connected daemons up to date. */
  tasks: BackgroundTask[];
  /** Cuts every connection; the daemons come back when the server is up again. */
  close(): void;
}

/** Headers of the 101 that tell one of our own daemons what this server can do. */
export function daemonUpgradeHeaders(offered: string | string[] | undefined): Record<string, string> {
  return parseCapabilities(offered).has('job-control/1')
    ? { [CAPABILITIES_HEADER]: formatCapabilities(['job-control/1']) }
    : {};
}

/** The server's end of the provisioner stream: WebSocket → yamux → DRPC, for published daemons and for our own. */
export function createDaemonConnections(services: Services, queue: JobQueue, metrics = noMetrics): DaemonConnections {
  const open = new Set<YamuxSession>();
  const peers = new Set<Peer>();
  const budgets = createDaemonBudgets();
  const isOurs = (offered: string | string[] | undefined) => parseCapabilities(offered).has('job-control/1');

  /** A daemon may have several connections: after a restart, those of its old process and of its new one. */
  async function noteEnd({ connection }: Peer): Promise<void> {
    const other = [...peers].find(({ daemon }) => daemon.id === connection.daemonId);
    await daemonDisconnected(services.sql, connection, other?.connection);
    // it ended meanwhile, when the row did not name it yet
    if (other && !peers.has(other)) await noteEnd(other);
  }

  return {
    tasks: daemonUpkeepTasks(services, peers),
    reserve: (daemon, offered) => budgets.reserve(daemon, isOurs(offered)),
    async serve(connection, daemon, offered, room) {
      const log = services.log.child({ daemon: daemon.name, daemon_id: daemon.id });
      // as the published server ends it: going away, or something went wrong
      const closeCode = (): number => (session.failed ? 1011 : 1001);
      const session: YamuxSession = new YamuxSession(byteStream(connection, { closeCode }), {
        role: 'server',
        maxIncomingStreams: MOST_CALLS,
      });
      open.add(session);
      const ours = isOurs(offered);
      const peer = createPeer(services, queue, metrics, daemon, { ours, uploads: room.uploads }, log, () =>
        session.close(),
      );
      peers.add(peer);
      const presence = daemonConnected(services.sql, peer.connection).catch((err) =>
        log.warn('could not note that a daemon is there', { err: errorText(err) }),
      );
      // it may have gone between the look at it and now, when nobody told this connection
      void withoutCredential(services, [daemon])
        .then((gone) => (gone.has(daemon.id) ? peer.revoke() : undefined))
        .catch((err) => log.warn('could not check the credential of a daemon', { err: errorText(err) }));
      log.info('provisioner daemon connected', { tags: daemon.tags, api_version: daemon.api_version });
      serveDrpc(
        session,
        [implement(ProvisionerDaemon, peer.published), ...(ours ? [implement(JobControl, peer.control)] : [])],
        {
          maxMessageBytes: room.maxMessageBytes,
          budget: room.budget,
          bounds: DAEMON_BOUNDS,
          onError: (err, method) => log.debug('provisioner call failed', { method, err: errorText(err) }),
        },
      );
      try {
        await session.closed;
      } finally {
        open.delete(session);
        room.release();
        peers.delete(peer);
        peer.close();
        log.info('provisioner daemon disconnected');
        await presence;
        // without it the daemon counts as there until it was not heard of for a while
        await noteEnd(peer).catch(() => {});
        forgetDaemonGroups(services);
      }
    },
    close() {
      for (const session of open) session.close();
    },
  };
}

interface Held {
  own: Ownership;
  logs: LogKeeper;
  /** Whether the daemon has said anything of this job: it has it, then, and may have begun. */
  confirmed: boolean;
  /** When it was taken, by performance.now(). */
  since: number;
}

function createPeer(
  services: Services,
  queue: JobQueue,
  metrics: Metrics,
  daemon: JoinedDaemon,
  { ours, uploads }: { ours: boolean; uploads: MessageBudget },
  log: Logger,
  cut: () => void,
) {
  const { sql, events, config } = services;
  const worker = workerOf(daemon);
  /** The jobs that this very connection holds: acquired or resumed on it, or named by a published daemon that came back. */
  const held = new Map<string, Held>();
  let uploading = false;
  const ended = new AbortController();
  const turns = createAcquireTurns();

  /** Ends the taking of jobs: what let this daemon in does not any more. */
  const draining = new AbortController();
  let lastState: NodeJS.Timeout | undefined;
  async function revoke(): Promise<void> {
    if (draining.signal.aborted) return;
    const reason = new AppError('forbidden', 'The credential of this daemon was revoked.');
    draining.abort(reason);
    turns.close(reason);
    log.warn('the credential of a daemon was revoked', { jobs_to_cancel: held.size });
    if (held.size === 0) return cut();
    const output = `The credential of the provisioner daemon ${daemon.name} was revoked: the job is canceled.`;
    const task = systemTask(systemContext(services, 'revocation'));
    for (const id of held.keys()) await noteInJobLog(sql, { task, id }, 'error', output).catch(() => {});
    const cancelHeld = async (force: boolean) => {
      for (const jobId of held.keys())
        await requestCancel(services, { task, job_id: jobId }, { force }).catch(() => {});
    };
    lastState = setTimeout(() => void cancelHeld(true).finally(cut), LAST_STATE_MS).unref();
    await cancelHeld(false);
  }

  /** Ours name the epoch with each call; for a published daemon this connection keeps it. */
  async function ownership(jobId: string, metadata: Readonly<Record<string, string>>): Promise<Held> {
    const named = metadata[EPOCH_KEY];
    const known = held.get(jobId);
    if (known && (named === undefined || Number(named) === known.own.epoch)) {
      known.confirmed = true;
      return known;
    }
    if (named !== undefined) {
      const own = ownershipOf(worker, jobId, Number(named));
      return { own, logs: known?.logs ?? createLogKeeper(), confirmed: true, since: performance.now() };
    }
    const job = await jobById(sql, jobId);
    if (!job) throw new AppError('not_found', 'job not found');
    const own = ownershipOf(worker, jobId, job.acquire_epoch);
    if (job.worker_id !== daemon.id) throw await notOwned(services, own);
    const taken = { own, logs: createLogKeeper(), confirmed: true, since: performance.now() };
    if (!job.completed_at) held.set(jobId, taken);
    return taken;
  }

  interface Acquired {
    job: JobRow;
    message: AcquiredJob;
    /** It did not reach the daemon. */
    lost(): void;
  }

  /** The next job for this daemon; undefined where it does not wait any more, which `leave` can make so. */
  async function acquire(call: AbortSignal, begun: (leave: () => void) => void): Promise<Acquired | undefined> {
    const turn = await turns.begin(call);
    if (!turn) return undefined;
    let job: Owned<JobRow>;
    let own: Ownership;
    try {
      await refuseUnconfirmed();
      begun(turn.leave);
      job = await queue.next(worker, turn.signal);
      own = ownershipOf(worker, job.id, job.acquire_epoch);
      if (turn.signal.aborted) {
        await putBack(own);
        return undefined;
      }
      held.set(job.id, { own, logs: createLogKeeper(), confirmed: false, since: performance.now() });
    } catch (err) {
      if (turn.signal.aborted) return undefined;
      throw err;
    } finally {
      turn.end();
    }
    try {
      const [gone, message] = await Promise.all([
        withoutCredential(services, [daemon]),
        acquiredJobMessage(services, job),
      ]);
      if (gone.has(daemon.id) || draining.signal.aborted || call.aborted) {
        await putBack(own);
        if (gone.has(daemon.id)) await revoke();
        return undefined;
      }
      const size = message.templateSourceArchive.length + stateSize(message);
      const most = ours ? OUR_MOST_MESSAGE_BYTES : MOST_MESSAGE_BYTES;
      // what else is in it is small; a kibibyte of each is left for it
      if (size > most - 65_536) throw new AppError('too_large', `payload was too big: ${size} > ${most}`);
      metrics.jobAcquired(job);
      const lost = () => {
        if (!held.get(job.id)?.confirmed)
          void putBack(own).catch((err) => log.warn('could not put a job back', { err: errorText(err) }));
      };
      return { job, message, lost };
    } catch (err) {
      held.delete(job.id);
      const text = errorText(err);
      log.error('could not hand over a job', { job_id: job.id, err: text });
      await failJob(services, own, { error: `The job could not be handed to a daemon: ${text}` } as never);
      throw err;
    }
  }

  /** A daemon works on one job at a time and says so of each: what it took and said nothing of comes first. */
  async function refuseUnconfirmed(): Promise<void> {
    const silent = () => [...held.values()].filter(({ confirmed }) => !confirmed);
    const asked = silent();
    if (asked.length === 0) return;
    const jobIds = asked.map(({ own }) => own.jobId);
    const left = await jobsOfWorker(sql, worker, jobIds);
    for (const { own } of asked) {
      const isLeft = left.some(({ id, epoch, mine }) => mine && id === own.jobId && epoch === own.epoch);
      if (!isLeft) held.delete(own.jobId);
    }
    const [job] = silent();
    if (job) {
      const text = `This connection was given job ${job.own.jobId} and has said nothing yet of it: no further job before.`;
      throw new AppError('conflict', text);
    }
  }

  /** Hands a job over in a stream of its own; if the message does not get through whole, the job goes back. */
  async function* handed<T>(found: Acquired | undefined, message: T): AsyncGenerator<T> {
    let written = false;
    try {
      yield message;
      written = true;
    } finally {
      if (!written) found?.lost();
    }
  }

  /** A job that the daemon never got: nothing was begun, so another may take it at once. */
  async function putBack(own: Ownership): Promise<void> {
    held.delete(own.jobId);
    const job = await putBackJob(services, own);
    if (job) log.info('a job goes back to the queue: its daemon did not get it', { job_id: job.id });
  }

  async function finish(jobId: string, taken: Held, end: () => Promise<void>): Promise<void> {
    await taken.logs.storeRest((lines, job) => insertJobLogs(sql, job, lines));
    await end();
    held.delete(jobId);
    // after a revocation the final state was the last thing that is taken
    if (draining.signal.aborted && held.size === 0) setImmediate(cut);
  }

  type Call = DrpcContext;

  /** What is said of a job that runs: the database may go away meanwhile, but not the job with it. */
  const ofJob = {
    async commitQuota(request: { jobId: string; dailyCost: number }, call: Call) {
      const taken = await ownership(request.jobId, call.metadata);
      const job = await touchJob(sql, taken.own, config.provisionerLease);
      if (!job) throw await notOwned(services, taken.own);
      await setPlannedCost(sql, job, request.dailyCost);
      return { ok: true, budget: -1, creditsConsumed: 0 };
    },
    async updateJob(request: Parameters<typeof updateJob>[2], call: Call) {
      const taken = await ownership(request.jobId, call.metadata);
      const numbers = parseLogNumbers(call.metadata[LOG_SEQUENCE_KEY], request.logs.length);
      return updateJob(services, taken.own, request, (lines, job) => taken.logs.keep(lines, job), numbers);
    },
    async failJob(request: Parameters<typeof failJob>[2], call: Call) {
      const taken = await ownership(request.jobId, call.metadata);
      await finish(request.jobId, taken, () => failJob(services, taken.own, request, metrics));
      return {};
    },
    async completeJob(request: Parameters<typeof completeJob>[2], call: Call) {
      const taken = await ownership(request.jobId, call.metadata);
      await finish(request.jobId, taken, () => completeJob(services, taken.own, request, metrics));
      return {};
    },
  };

  const published = {
    async acquireJob(_request: unknown, call: Call) {
      let timer: NodeJS.Timeout | undefined;
      try {
        const found = await acquire(call.signal, (leave) => {
          timer = setTimeout(leave, UNARY_ACQUIRE_MS);
        });
        // a call that was answered is not aborted any more
        if (found) call.signal.addEventListener('abort', found.lost, { once: true });
        return found?.message ?? {};
      } finally {
        clearTimeout(timer);
      }
    },
    async *acquireJobWithCancel(requests: AsyncIterable<unknown>, call: Call) {
      call.endWithClose();
      // a message means cancel, and so does the end of the stream
      const found = await acquire(call.signal, (leave) => void firstOf(requests, () => true).then(leave));
      yield* handed(found, found?.message ?? {});
    },
    ...patient(ofJob, log, showNul),
    async uploadFile(requests: AsyncIterable<UploadFileRequest>) {
      if (held.size === 0 || uploading) throw new AppError('conflict', 'One upload at a time, while a job is running.');
      uploading = true;
      try {
        await receiveUpload(services, requests, uploads);
      } finally {
        uploading = false;
      }
      return {};
    },
  };

  /** The same of what only our daemons say. */
  const ofOurJob = {
    async resume(request: { jobId: string; epoch: bigint }) {
      const own = ownershipOf(worker, request.jobId, Number(request.epoch));
      const touched = await touchJob(sql, own, config.provisionerLease);
      if (!touched) return { accepted: false, reason: (await notOwned(services, own)).message };
      held.set(own.jobId, {
        own,
        logs: held.get(own.jobId)?.logs ?? createLogKeeper(),
        confirmed: true,
        since: performance.now(),
      });
      return { accepted: true, canceled: touched.canceled_at !== null, leaseMs: BigInt(config.provisionerLease) };
    },
    async checkpoint(request: { jobId: string; epoch: bigint; state: Uint8Array; inFlight: string[] }) {
      const own = ownershipOf(worker, request.jobId, Number(request.epoch));
      const accepted = await checkpoint(services, own, request, metrics);
      return { accepted };
    },
    async deliverState(request: { jobId: string; state: Uint8Array }) {
      const job = await jobById(sql, request.jobId);
      if (!job || job.organization_id !== daemon.organization_id || job.worker_id !== daemon.id) {
        return { outcome: DeliverStateResponse_Outcome.REFUSED };
      }
      const outcome = await deliverState(services, ownershipOf(worker, job.id, job.acquire_epoch), request, metrics);
      // it was given up there: its lease is not renewed any more
      held.delete(request.jobId);
      return {
        outcome: {
          kept: DeliverStateResponse_Outcome.KEPT,
          orphaned: DeliverStateResponse_Outcome.ORPHANED,
          refused: DeliverStateResponse_Outcome.REFUSED,
        }[outcome],
      };
    },
  };

  const control = {
    async *acquire(requests: AsyncIterable<{ cancel: boolean }>, call: Call) {
      const found = await acquire(
        call.signal,
        (leave) => void firstOf(requests, (request) => request.cancel).then(leave),
      );
      yield* handed(
        found,
        found
          ? { job: found.message, epoch: BigInt(found.job.acquire_epoch), leaseMs: BigInt(config.provisionerLease) }
          : {},
      );
    },
    async *watch(_request: unknown, call: Call) {
      const notices: { jobId: string; kind: JobNotice_Kind }[] = [];
      let wake = () => {};
      const push = (jobId: string, kind: JobNotice_Kind) => {
        notices.push({ jobId, kind });
        wake();
      };
      const off = events.on('job_canceled', ({ job_id, force }) => {
        if (held.has(job_id)) push(job_id, force ? JobNotice_Kind.FORCE_CANCEL : JobNotice_Kind.CANCEL);
      });
      const stop = () => wake();
      call.signal.addEventListener('abort', stop, { once: true });
      ended.signal.addEventListener('abort', stop, { once: true });
      const over = () => call.signal.aborted || ended.signal.aborted;
      try {
        while (!over()) {
          for (let notice = notices.shift(); notice; notice = notices.shift()) yield notice;
          if (notices.length > 0 || over()) continue;
          // a lost notification costs a second at most
          await new Promise<void>((resolve) => {
            const timer = setTimeout(resolve, 1_000);
            wake = () => {
              clearTimeout(timer);
              resolve();
            };
          });
          if (held.size === 0) continue;
          const rows = await jobsOfWorker(sql, worker, [...held.keys()]).catch((err) => {
            if (isUnreachable(err)) return []; // the next look finds it
            throw err;
          });
          for (const { id, canceled, mine } of rows) {
            if (!mine) push(id, JobNotice_Kind.LOST);
            else if (canceled && !notified.has(id)) push(id, JobNotice_Kind.CANCEL);
            if (canceled) notified.add(id);
            if (!mine) held.delete(id);
          }
        }
      } finally {
        off();
        ended.signal.removeEventListener('abort', stop);
      }
    },
    ...patient(ofOurJob, log, showNul),
  };
  const notified = new Set<string>();

  return {
    daemon,
    connection: connectionOf(daemon),
    published,
    control,
    owned: () => [...held.values()].map(({ own }) => own),
    async putBackUnconfirmed() {
      for (const { own, confirmed, since } of held.values())
        if (ours && !confirmed && performance.now() - since > UNCONFIRMED_MS) await putBack(own);
    },
    revoke,
    close() {
      clearTimeout(lastState);
      // one of ours begins nothing before its first report was answered
      for (const { own, confirmed, logs } of held.values()) {
        // its next connection does not send again what counts as arrived
        void logs
          .storeRest((lines, job) => insertJobLogs(sql, job, lines))
          .catch((err) => log.warn('lost lines of a job log', { job_id: own.jobId, err: errorText(err) }));
        if (ours && !confirmed)
          void putBack(own).catch((err) => log.warn('could not put a job back', { err: errorText(err) }));
      }
      const reason = new AppError('canceled', 'The daemon disconnected.');
      ended.abort(reason);
      turns.close(reason);
    },
  };
}

/** Resolves at the first message that holds, or at the end of them. */
async function firstOf<T>(messages: AsyncIterable<T>, holds: (message: T) => boolean): Promise<void> {
  try {
    for await (const message of messages) if (holds(message)) return;
  } catch {
    // one that can't be read ends them, too
  }
}

function stateSize({ type }: AcquiredJob): number {
  return type.case === 'workspaceBuild' ? type.value.state.length : 0;
}

/** Module files of a version, in pieces; what arrives is checked against the announced size and SHA-256. */
async function receiveUpload(
  services: Services,
  requests: AsyncIterable<UploadFileRequest>,
  budget: MessageBudget,
): Promise<void> {
  let taken = 0;
  try {
    await storeUpload(services, requests, (bytes) => {
      budget.take(bytes);
      taken += bytes;
    });
  } finally {
    budget.give(taken);
  }
}

async function storeUpload(
  services: Services,
  requests: AsyncIterable<UploadFileRequest>,
  take: (bytes: number) => void,
): Promise<void> {
  let size = 0;
  let expected: { hash: string; size: number } | undefined;
  const parts: Uint8Array[] = [];
  // piece by piece: of 100 MiB at once it would hold up everything else for 100 ms
  const sum = createHash('sha256');
  for await (const { type } of requests) {
    if (type.case === 'dataUpload') {
      if (expected || type.value.dataHash.length !== 32)
        throw new AppError('invalid', 'An upload begins with its 32-byte hash, once.');
      expected = { hash: Buffer.from(type.value.dataHash).toString('hex'), size: Number(type.value.fileSize) };
      if (expected.size > MOST_MODULE_BYTES) throw new AppError('too_large', 'The module files are too large.');
    } else if (type.case === 'chunkPiece') {
      if (!expected || type.value.pieceIndex !== parts.length)
        throw new AppError('invalid', 'A piece of the upload is missing.');
      size += type.value.data.length;
      if (size > expected.size) throw new AppError('invalid', 'The upload is larger than announced.');
      take(type.value.data.length);
      parts.push(type.value.data);
      sum.update(type.value.data);
    }
    if (expected && size === expected.size) break;
  }
  const data = Buffer.concat(parts);
  const hash = sum.digest('hex');
  if (!expected || size !== expected.size || hash !== expected.hash) {
    throw new AppError('invalid', 'The upload does not have the announced size and hash.');
  }
  await storeModuleArchive(services.sql, data, hash);
}
