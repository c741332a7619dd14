import { create, toBinary } from '@bufbuild/protobuf';
import { AppError, backoff, type Clock, errorText, type Logger } from '@ropewalk/kit';
import { abortable } from '@ropewalk/kit/abortable';
import { DrpcError, MAX_MESSAGE_BYTES } from '@ropewalk/wire/drpc/frames';
import { JOB_ERRORS } from '@ropewalk/wire/job-errors';
import { formatLogNumbers, LOG_SEQUENCE_KEY, type LogNumber } from '@ropewalk/wire/log-sequence';
import {
  CheckpointRequestSchema,
  DeliverStateRequestSchema,
  type DeliverStateResponse,
  type FinishRequest,
  FinishRequestSchema,
  type FrozenFilePiece,
  FrozenFileRequestSchema,
  FrozenRequestSchema,
  KeepFrozenRequestSchema,
  RequireEngineRequestSchema,
  ResumeRequestSchema,
} from '@ropewalk/wire/proto/platform_provisioner';
import {
  CommitQuotaRequestSchema,
  type CommitQuotaResponse,
  UpdateJobRequestSchema,
  type UpdateJobResponse,
  type UploadFileRequest,
  UploadFileRequestSchema,
} from '@ropewalk/wire/proto/provisionerd';
import type { Ending, FrozenPort, JobPort, UpdateFields, Upload } from '../job/job-port.ts';
import { stateHeader } from '../resources/model.ts';
import type { Checkpoint } from '../terraform/checkpoint.ts';
import type { Connection, ServerLink } from './link.ts';

const CALL_TIMEOUT_MS = 30_000;
const UPLOAD_TIMEOUT_MS = 5 * 60_000;
const CHUNK = 2 << 20;
/** How long to repeat a call that makes the server fail. After that, the call may be the cause. */
const MAX_FAILING_MS = 5 * 60_000;
/** The texts with which servers without codes say that a job belongs to another daemon or has ended. */
const NOT_OWNED = new Set([
  'job not found',
  'job already completed',
  "job isn't running yet",
  "you don't own this job",
]);
/** The intervals of heartbeats. Our server pushes changes and pings, so its heartbeats are only a fallback. */
const HEARTBEAT_MS = { upstream: 500, own: 5_000 };

/** This daemon no longer owns the job: another daemon does, or the server has ended it. */
export class LostJobError extends AppError {
  constructor(reason: string) {
    super('conflict', `This daemon no longer owns the job: ${reason}`);
    this.name = 'LostJobError';
  }
}

/**
 * Represents the server for one job, across connections. Resumes the job on each new connection and reports a cancel.
 */
export class JobLink implements JobPort {
  readonly #link: ServerLink;
  readonly #jobId: string;
  readonly #epoch: bigint;
  readonly #log: Logger;
  readonly #clock: Clock;
  readonly #resumed = new WeakMap<Connection, Promise<void>>();
  readonly #cancel = new AbortController();
  readonly #lost = new AbortController();
  readonly #over = new AbortController();
  #lastUpdate = 0;
  #delivering = false;
  readonly checkpoint?: (checkpoint: Checkpoint) => Promise<void>;
  readonly frozen?: FrozenPort;
  readonly requireEngine?: (constraints: readonly string[]) => Promise<void>;

  /** `acquiredOn`: the connection that delivered the job. Absent for an adopted job, which must be resumed first. */
  constructor(options: {
    link: ServerLink;
    jobId: string;
    epoch: bigint;
    acquiredOn?: Connection | undefined;
    log: Logger;
    clock: Clock;
  }) {
    this.#link = options.link;
    this.#jobId = options.jobId;
    this.#epoch = options.epoch;
    this.#log = options.log;
    this.#clock = options.clock;
    if (options.acquiredOn) this.#resumed.set(options.acquiredOn, Promise.resolve());
    if (options.epoch > 0n) {
      this.checkpoint = (checkpoint) => this.#checkpoint(checkpoint);
      this.frozen = this.#frozen();
      this.requireEngine = (constraints) => this.#requireEngine(constraints);
    }
  }

  /** Fires when the server cancels the job. */
  get canceled(): AbortSignal {
    return this.#cancel.signal;
  }

  /** Fires with a LostJobError. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** Resumes the job on a new connection. The server pushes changes of the job only to a connection that resumed it. */
  connected(connection: Connection): void {
    void this.#resume(connection).catch((err) => this.#log.debug('job not resumed yet', { job: this.#jobId, err }));
  }

  /** Cancels the job, because the server pushed a cancel or because the daemon ends. */
  cancel(reason: string): void {
    this.#cancel.abort(new AppError('canceled', reason));
  }

  lose(reason: string): void {
    this.#lost.abort(new LostJobError(reason));
  }

  /** Sends heartbeats until `stop`. */
  heartbeat(): void {
    void this.#beat().catch((err) => {
      if (!this.#over.signal.aborted) this.#log.warn('stopped sending heartbeats', { job: this.#jobId, err });
    });
  }

  stop(): void {
    this.#over.abort(new AppError('canceled', 'The job has ended.'));
  }

  async update(fields: UpdateFields, numbers: LogNumber[] = []): Promise<UpdateJobResponse> {
    this.#lastUpdate = this.#clock.monotonic();
    return this.#call(({ daemon, control }) =>
      daemon.updateJob(...this.#report(fields, numbers, control !== undefined)),
    );
  }

  /** The request and the options of an update. Only our server knows the numbers of lines. */
  #report(fields: UpdateFields, numbers: LogNumber[], ours: boolean) {
    const request = create(UpdateJobRequestSchema, { ...fields, jobId: this.#jobId });
    const options = this.#callOptions();
    if (ours && numbers.length > 0)
      options.metadata = { ...options.metadata, [LOG_SEQUENCE_KEY]: formatLogNumbers(numbers) };
    return [request, options] as const;
  }

  async commitQuota(dailyCost: number): Promise<CommitQuotaResponse> {
    const request = create(CommitQuotaRequestSchema, { jobId: this.#jobId, dailyCost });
    return this.#call((connection) => connection.daemon.commitQuota(request, this.#callOptions()));
  }

  async upload({ type, data, hash }: Upload): Promise<void> {
    const chunks = Math.ceil(data.length / CHUNK);
    const messages: UploadFileRequest[] = [
      create(UploadFileRequestSchema, {
        type: {
          case: 'dataUpload',
          value: { uploadType: type, dataHash: hash, fileSize: BigInt(data.length), chunks },
        },
      }),
    ];
    for (let index = 0; index < chunks; index++)
      messages.push(
        create(UploadFileRequestSchema, {
          type: {
            case: 'chunkPiece',
            value: { data: data.subarray(index * CHUNK, (index + 1) * CHUNK), fullDataHash: hash, pieceIndex: index },
          },
        }),
      );
    await this.#call(async (connection) => {
      const stream = connection.daemon.uploadFile(this.#callOptions(UPLOAD_TIMEOUT_MS));
      try {
        for (const message of messages) await stream.send(message);
        await stream.closeSend();
        for await (const _ of stream.responses) return;
      } finally {
        stream.cancel();
      }
    });
  }

  /** Delivers the verdict with the rest of the log. Resolves when the server has accepted them. */
  async deliver({ verdict, rest }: Ending): Promise<void> {
    const { logs, numbers } = rest;
    const result =
      verdict.kind === 'complete'
        ? ({ case: 'completed', value: verdict.job } as const)
        : ({ case: 'failed', value: verdict.job } as const);
    const together = create(FinishRequestSchema, { logs, logNumbers: formatLogNumbers(numbers), result });
    this.#delivering = true;
    await this.#call(async ({ daemon, control, finishes }) => {
      if (control && finishes && logs.length > 0 && isShort(together)) {
        await control.finish(together, this.#callOptions());
        return;
      }
      if (logs.length > 0) await daemon.updateJob(...this.#report({ logs }, numbers, control !== undefined));
      if (verdict.kind === 'complete') await daemon.completeJob(verdict.job, this.#callOptions());
      else await daemon.failJob(verdict.job, this.#callOptions());
    }, true);
  }

  /** Offers the server the state of a lost job. Undefined if the server does not support this. */
  async deliverState(state: Uint8Array, error: string): Promise<DeliverStateResponse['outcome'] | undefined> {
    const { serial, lineage } = stateHeader(state);
    const request = create(DeliverStateRequestSchema, {
      jobId: this.#jobId,
      epoch: this.#epoch,
      state,
      serial,
      lineage,
      error,
    });
    return this.#link.call(async ({ control }) => {
      if (!control) return undefined;
      return (await control.deliverState(request, { timeoutMs: CALL_TIMEOUT_MS })).outcome;
    });
  }

  async #checkpoint(checkpoint: Checkpoint): Promise<void> {
    const request = create(CheckpointRequestSchema, { jobId: this.#jobId, epoch: this.#epoch, ...checkpoint });
    const { accepted } = await this.#call(async ({ control }) => {
      if (!control) return { accepted: true };
      return control.checkpoint(request, this.#callOptions());
    });
    if (!accepted) this.lose('the server rejected a checkpoint');
  }

  async #requireEngine(constraints: readonly string[]): Promise<void> {
    const requiredVersion = constraints.join(', ');
    const request = create(RequireEngineRequestSchema, { jobId: this.#jobId, epoch: this.#epoch, requiredVersion });
    const { putBack } = await this.#call(async ({ control }) => {
      if (!control) return { putBack: false };
      return control.requireEngine(request, this.#callOptions());
    });
    if (putBack) this.lose('it went back to the queue, because it requires another version of Terraform');
  }

  #frozen(): FrozenPort {
    const job = { jobId: this.#jobId, epoch: this.#epoch };
    const ours = <T>(run: (control: NonNullable<Connection['control']>) => Promise<T>) =>
      this.#call(async ({ control }) => {
        if (!control) throw new AppError('unavailable', 'The server does not store prepared versions.');
        return run(control);
      });
    return {
      keep: (version) =>
        ours(async (control) => {
          const request = create(KeepFrozenRequestSchema, { ...job, version });
          const { missing, mostPackageBytes } = await control.keepFrozen(request, this.#callOptions());
          return { missing, mostBytes: Number(mostPackageBytes) };
        }),
      get: () =>
        ours(async (control) => {
          const version = await control.frozen(create(FrozenRequestSchema, job), this.#callOptions());
          return version.id === '' ? undefined : version;
        }),
      file: (hash, read) =>
        ours(async (control) => {
          const request = create(FrozenFileRequestSchema, { ...job, hash });
          const stream = control.frozenFile(request, this.#callOptions(UPLOAD_TIMEOUT_MS));
          try {
            return await read(dataOf(stream.responses));
          } finally {
            stream.cancel();
          }
        }),
    };
  }

  async #beat(): Promise<void> {
    const over = this.#over.signal;
    for (;;) {
      const { control } = await this.#link.connection(over);
      const interval = control ? HEARTBEAT_MS.own : HEARTBEAT_MS.upstream;
      await this.#clock.sleep(interval, over);
      if (this.#clock.monotonic() - this.#lastUpdate < interval) continue;
      const beat = await this.update({}).catch((err) => {
        over.throwIfAborted();
        this.#lost.signal.throwIfAborted();
        this.#log.warn('a heartbeat failed; sending the next one', { job: this.#jobId, err });
      });
      if (beat?.canceled) this.cancel('The server canceled this job.');
    }
  }

  /**
   * Makes a call, and repeats it while the server cannot answer it. Only an answer that names the ownership ends this
   * daemon's right to the job, and only one that rejects the call is final.
   */
  async #call<T>(run: (connection: Connection) => Promise<T>, delivers = false): Promise<T> {
    const lost = this.#lost.signal;
    const waits = backoff({ baseMs: 100, capMs: 10_000 });
    const since = this.#clock.monotonic();
    for (;;) {
      let coded = false;
      try {
        return await this.#link.call(async (connection) => {
          ({ coded } = connection);
          await abortable(this.#resume(connection), lost);
          return abortable(run(connection), lost);
        }, lost);
      } catch (err) {
        lost.throwIfAborted();
        const kind = kindOf(err, coded);
        // while the verdict is on its way, it alone learns whether the job has ended
        if (kind === 'not owned' && (delivers || !this.#delivering)) this.lose(errorText(err));
        lost.throwIfAborted();
        if (kind !== 'passing' && !(kind === 'failed' && this.#clock.monotonic() - since < MAX_FAILING_MS)) throw err;
        this.#log.warn('the server cannot answer a call about a job; trying again', { job: this.#jobId, err });
        await this.#clock.sleep(waits.next(), lost);
      }
    }
  }

  /** Resumes the job, once per connection. Our server first says whether this daemon still owns the job. */
  #resume(connection: Connection): Promise<void> {
    let done = this.#resumed.get(connection);
    if (!done) {
      done = this.#askResume(connection);
      this.#resumed.set(connection, done);
      done.catch(() => this.#resumed.delete(connection));
    }
    return done;
  }

  async #askResume({ control }: Connection): Promise<void> {
    if (!control || this.#epoch === 0n) return;
    const request = create(ResumeRequestSchema, { jobId: this.#jobId, epoch: this.#epoch });
    const { accepted, canceled, reason } = await control.resume(request, { timeoutMs: CALL_TIMEOUT_MS });
    if (!accepted) {
      this.lose(reason || 'the server gave no reason');
      throw this.#lost.signal.reason;
    }
    this.#log.info('resumed a job', { job: this.#jobId });
    if (canceled) this.cancel('The server canceled this job.');
  }

  #callOptions(timeoutMs = CALL_TIMEOUT_MS): { timeoutMs: number; metadata?: Record<string, string> } {
    return { timeoutMs, ...epochMetadata(this.#epoch) };
  }
}

/** What an error of a call says. `final`: no other attempt can succeed. */
function kindOf(err: unknown, coded: boolean): 'not owned' | 'final' | 'failed' | 'passing' {
  if (!(err instanceof DrpcError) || !err.remote) return 'final';
  if (!coded) return NOT_OWNED.has(err.message) ? 'not owned' : 'final';
  if (err.code === JOB_ERRORS.notOwned) return 'not owned';
  if (err.code === JOB_ERRORS.failed) return 'failed';
  return err.code === 0 ? 'passing' : 'final';
}

/** Whether a message is as short as the server takes from any daemon. */
const isShort = (request: FinishRequest): boolean => toBinary(FinishRequestSchema, request).length <= MAX_MESSAGE_BYTES;

async function* dataOf(pieces: AsyncIterable<FrozenFilePiece>): AsyncGenerator<Uint8Array> {
  for await (const { data } of pieces) yield data;
}

/** The metadata that proves the ownership of the job. Empty with an upstream server, which has no epochs. */
export function epochMetadata(epoch: bigint): { metadata?: Record<string, string> } {
  return epoch > 0n ? { metadata: { 'platform-job-epoch': epoch.toString() } } : {};
}
