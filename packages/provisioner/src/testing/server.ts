import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { eventually } from '@ropewalk/testkit/wait';
import {
  acceptWebSocket,
  byteStream,
  CAPABILITIES_HEADER,
  type Capability,
  type DrpcContext,
  DrpcError,
  formatCapabilities,
  implement,
  serveDrpc,
  YamuxSession,
} from '@ropewalk/wire';
import { freshLines, LOG_SEQUENCE_KEY, type LogPositions, parseLogNumbers } from '@ropewalk/wire/log-sequence';
import {
  type CheckpointRequest,
  type DeliverStateRequest,
  DeliverStateResponse_Outcome,
  type FinishRequest,
  type FrozenVersion,
  JobControl,
  type JobNotice_Kind,
  type KeepFrozenRequest,
  type RequireEngineRequest,
} from '@ropewalk/wire/proto/platform_provisioner';
import {
  type AcquiredJob,
  AcquiredJobSchema,
  type CompletedJob,
  type FailedJob,
  type Log,
  ProvisionerDaemon,
  type UpdateJobRequest,
  UpdateJobRequestSchema,
} from '@ropewalk/wire/proto/provisionerd';

const FINISHES = ['job-finish/1'] as const;

export type Posted = Exclude<MessageInitShape<typeof AcquiredJobSchema>, AcquiredJob>;

export interface Dial {
  url: URL;
  headers: NodeJS.Dict<string | string[]>;
}

/** A server for tests. It uses the real protocol on real sockets, but a script instead of the server's rules. */
export class ScriptedServer {
  /** Whether it acts as our server. False: it acts as upstream's, without JobControl. */
  readonly ours: boolean;
  readonly dials: Dial[] = [];
  readonly updates: UpdateJobRequest[] = [];
  readonly epochs: (string | undefined)[] = [];
  /** The log as our server stores it, with each numbered line once. */
  readonly stored: Log[] = [];
  #positions: LogPositions = {};
  readonly checkpoints: CheckpointRequest[] = [];
  readonly delivered: DeliverStateRequest[] = [];
  readonly frozen: FrozenVersion[] = [];
  readonly requiredEngines: string[] = [];
  /** Whether jobs that require another engine go back to the queue. */
  putBack = false;
  readonly resumed: { jobId: string; epoch: bigint }[] = [];
  readonly completed: CompletedJob[] = [];
  readonly failed: FailedJob[] = [];
  readonly quotas: number[] = [];
  readonly uploads: Uint8Array[] = [];
  readonly sessions = new Set<YamuxSession>();
  /** Jobs that replies to heartbeats report as canceled. */
  readonly canceled = new Set<string>();
  readonly #http: Server;
  readonly #jobs: AcquiredJob[] = [];
  readonly #waiting = new Set<() => void>();
  readonly #watchers = new Set<(jobId: string, kind: JobNotice_Kind) => void>();
  /** The status of the answer to the upgrade. With 101 it accepts the connection. */
  status = 101;
  /** Whether it can take a verdict together with the end of the log, from the next connection on. */
  finishes = true;
  acceptResume = true;
  quotaOk = true;
  refuseComplete: string | undefined;
  /** Whether its errors have the codes of JOB_ERRORS, from the next connection on. */
  coded = false;
  /** The errors of the next verdicts, with their codes. The verdicts after them are accepted. */
  verdictErrors: DrpcError[] = [];
  /** The number of verdicts that had such an error. */
  get refused(): number {
    return this.#refused;
  }
  #refused = 0;
  /** Whether to leave verdicts without an answer. */
  holdVerdicts = false;
  heldVerdicts = 0;
  /** Converts the user's values to the values of the job. */
  variables: (request: UpdateJobRequest) => { name: string; value: string; sensitive: boolean }[] = (request) =>
    request.templateVariables.map(({ name, defaultValue, sensitive }) => {
      const given = request.userVariableValues.find((value) => value.name === name);
      if (!given && defaultValue === '') throw new DrpcError(`required template variables need values: ${name}`);
      return { name, value: given?.value ?? defaultValue, sensitive };
    });

  private constructor(ours: boolean) {
    this.ours = ours;
    this.#http = createServer();
    this.#http.on('upgrade', (req, socket, head) => {
      this.dials.push({ url: new URL(req.url ?? '/', 'http://x'), headers: req.headers });
      if (this.status !== 101) {
        socket.on('error', () => {}); // a daemon that ends in the meantime
        const body = JSON.stringify({ message: 'no' });
        socket.end(
          `HTTP/1.1 ${this.status} X\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
        );
        return;
      }
      const headers: Record<string, string> = ours
        ? { [CAPABILITIES_HEADER]: formatCapabilities(this.#capabilities()) }
        : {};
      const session = new YamuxSession(byteStream(acceptWebSocket(req, socket, head, { headers })), { role: 'server' });
      this.sessions.add(session);
      void session.closed.then(() => this.sessions.delete(session));
      serveDrpc(session, [
        implement(ProvisionerDaemon, this.#upstream()),
        ...(ours ? [implement(JobControl, this.#control())] : []),
      ]);
    });
  }

  static async start(options: { ours?: boolean; port?: number } = {}): Promise<ScriptedServer> {
    const server = new ScriptedServer(options.ours ?? true);
    await new Promise<void>((resolve) => server.#http.listen(options.port ?? 0, '127.0.0.1', resolve));
    return server;
  }

  #capabilities(): Capability[] {
    return ['job-control/1', ...(this.finishes ? FINISHES : []), ...(this.coded ? (['job-errors/1'] as const) : [])];
  }

  get port(): number {
    return (this.#http.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  get logs(): Log[] {
    return this.updates.flatMap(({ logs }) => logs);
  }

  /** The number of daemons that wait for a job. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** The log as lines of `stage: output`. */
  get text(): string {
    return this.logs.map(({ stage, output }) => `${stage}: ${output}`).join('\n');
  }

  post(job: Posted): string {
    const full = create(AcquiredJobSchema, { provisioner: 'terraform', jobId: crypto.randomUUID(), ...job });
    this.#jobs.push(full);
    this.#wake();
    return full.jobId;
  }

  notify(jobId: string, kind: JobNotice_Kind): void {
    for (const watcher of this.#watchers) watcher(jobId, kind);
  }

  /** Closes all connections, as a restart or a broken network does. */
  cut(): void {
    for (const session of this.sessions) void session.close();
  }

  async verdict(jobId: string, withinMs = 60_000): Promise<{ completed?: CompletedJob; failed?: FailedJob }> {
    return eventually(
      `a verdict; log:\n${this.text}`,
      () => {
        const completed = this.completed.find((job) => job.jobId === jobId);
        const failed = this.failed.find((job) => job.jobId === jobId);
        if (completed) return { completed };
        return failed ? { failed } : undefined;
      },
      withinMs,
    );
  }

  async close(): Promise<void> {
    this.cut();
    this.#http.closeAllConnections();
    await new Promise((resolve) => this.#http.close(resolve));
  }

  #wake(): void {
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }

  async #next(requests: AsyncIterable<unknown>, ctx: DrpcContext): Promise<AcquiredJob | undefined> {
    let stopped = false;
    void (async () => {
      for await (const _ of requests) break;
    })()
      .catch(() => {})
      .finally(() => {
        stopped = true;
        this.#wake();
      });
    ctx.signal.addEventListener('abort', () => {
      stopped = true;
      this.#wake();
    });
    for (;;) {
      if (stopped) return undefined;
      const job = this.#jobs.shift();
      if (job) return job;
      await new Promise<void>((resolve) => this.#waiting.add(resolve));
    }
  }

  #upstream() {
    return {
      acquireJobWithCancel: async function* (this: ScriptedServer, requests: AsyncIterable<unknown>, ctx: DrpcContext) {
        ctx.endWithClose();
        yield (await this.#next(requests, ctx)) ?? {};
      }.bind(this),
      updateJob: (request: UpdateJobRequest, ctx: DrpcContext) => {
        this.updates.push(request);
        this.epochs.push(ctx.metadata['platform-job-epoch']);
        this.#store(request.logs, ctx.metadata[LOG_SEQUENCE_KEY]);
        return {
          canceled: this.canceled.has(request.jobId),
          variableValues: request.templateVariables.length > 0 ? this.variables(request) : [],
        };
      },
      commitQuota: ({ dailyCost }: { dailyCost: number }) => {
        this.quotas.push(dailyCost);
        return { ok: this.quotaOk, creditsConsumed: 3, budget: 10 };
      },
      completeJob: async (job: CompletedJob) => {
        await this.#judge();
        this.completed.push(job);
        return {};
      },
      failJob: (job: FailedJob) => {
        this.#refuse();
        this.failed.push(job);
        return {};
      },
      uploadFile: async (requests: AsyncIterable<{ type: { case?: string | undefined; value?: unknown } }>) => {
        const parts: Uint8Array[] = [];
        for await (const { type } of requests)
          if (type.case === 'chunkPiece') parts.push((type.value as { data: Uint8Array }).data);
        this.uploads.push(Buffer.concat(parts));
        return {};
      },
    };
  }

  #store(logs: Log[], numbersText: string | undefined): void {
    const numbers = parseLogNumbers(numbersText, logs.length);
    const { fresh, positions } = freshLines(logs, numbers ?? [], this.#positions);
    this.stored.push(...fresh);
    this.#positions = positions;
  }

  #refuse(): void {
    const error = this.verdictErrors.shift();
    if (!error) return;
    this.#refused += 1;
    throw error;
  }

  async #judge(): Promise<void> {
    this.#refuse();
    if (this.holdVerdicts) {
      this.heldVerdicts++;
      await new Promise(() => {});
    }
    if (this.refuseComplete) throw new DrpcError(this.refuseComplete);
  }

  #control() {
    return {
      finish: async ({ logs, logNumbers, result }: FinishRequest, ctx: DrpcContext) => {
        if (!this.finishes) throw new DrpcError('unknown rpc');
        if (result.case === 'completed') await this.#judge();
        else this.#refuse();
        this.epochs.push(ctx.metadata['platform-job-epoch']);
        this.updates.push(create(UpdateJobRequestSchema, { jobId: result.value?.jobId ?? '', logs }));
        this.#store(logs, logNumbers);
        if (result.case === 'completed') this.completed.push(result.value);
        if (result.case === 'failed') this.failed.push(result.value);
        return {};
      },
      acquire: async function* (this: ScriptedServer, requests: AsyncIterable<unknown>, ctx: DrpcContext) {
        const job = await this.#next(requests, ctx);
        yield job ? { job, epoch: 7n, leaseMs: 90_000n } : {};
      }.bind(this),
      watch: async function* (this: ScriptedServer, _request: unknown, ctx: DrpcContext) {
        const notices: { jobId: string; kind: JobNotice_Kind }[] = [];
        let wake = () => {};
        const watcher = (jobId: string, kind: JobNotice_Kind) => {
          notices.push({ jobId, kind });
          wake();
        };
        this.#watchers.add(watcher);
        ctx.signal.addEventListener('abort', () => wake());
        while (!ctx.signal.aborted) {
          for (let notice = notices.shift(); notice; notice = notices.shift()) yield notice;
          if (notices.length === 0 && !ctx.signal.aborted)
            await new Promise<void>((resolve) => {
              wake = resolve;
            });
        }
        this.#watchers.delete(watcher);
      }.bind(this),
      resume: (request: { jobId: string; epoch: bigint }) => {
        this.resumed.push(request);
        const canceled = this.canceled.has(request.jobId);
        return { accepted: this.acceptResume, canceled, reason: 'the lease has expired', leaseMs: 90_000n };
      },
      checkpoint: (request: CheckpointRequest) => {
        this.checkpoints.push(request);
        return { accepted: true };
      },
      keepFrozen: ({ version }: KeepFrozenRequest) => {
        this.frozen.push(version!);
        return { missing: [] };
      },
      requireEngine: ({ requiredVersion }: RequireEngineRequest) => {
        this.requiredEngines.push(requiredVersion);
        return { putBack: this.putBack };
      },
      deliverState: (request: DeliverStateRequest) => {
        this.delivered.push(request);
        return { outcome: DeliverStateResponse_Outcome.KEPT };
      },
    };
  }
}
