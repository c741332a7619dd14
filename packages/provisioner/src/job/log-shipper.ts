import { create } from '@bufbuild/protobuf';
import type { LogNumber } from '@ropewalk/wire/log-sequence';
import { LogLevel } from '@ropewalk/wire/proto/provisioner';
import { type Log, LogSchema, LogSource } from '@ropewalk/wire/proto/provisionerd';
import type { LogLine } from '../terraform/logs.ts';
import type { JobPort, LogBatch } from './job-port.ts';

const BATCH_MS = 100;
const BATCH_LINES = 1_000;
const BATCH_BYTES = 512 << 10;
/** The maximum number of characters of a line to send. The server keeps 1024. */
const MAX_OUTPUT = 4_096;

/** The position of a line in a run's log. */
export interface RunLine extends LogNumber {
  /** The offset of the next record in the log's file. Only on the last line of a record. */
  next?: number | undefined;
}

const NOTHING: LogBatch = { logs: [], numbers: [] };

/** A line of the daemon itself. */
export interface OwnLine extends LogLine {
  sequence: number;
  stage: string;
}

/** How much of a run's log the server has received. */
export interface Delivered {
  /** The origin of the run's lines. */
  origin: string;
  offset: number;
}

/**
 * Sends a job's log in order and in batches, one call at a time. A caller that adds lines waits while one batch is on
 * its way and the next is full, so a slow or absent server never grows memory.
 */
export class LogShipper {
  readonly #port: JobPort;
  readonly #onDelivered: (delivered: Delivered) => void;
  readonly #onStage: (name: string) => void;
  #stage = '';
  #lines: Log[] = [];
  #numbers: LogNumber[] = [];
  #bytes = 0;
  /** How many lines there have been, and how many of them were delivered or given up. */
  #added = 0;
  #done = 0;
  #mark: Delivered | undefined;
  #onItsWay: LogBatch = NOTHING;
  readonly #origin: string;
  #own: number;
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> | undefined;
  #failure: Error | undefined;

  /**
   * Calls `delivered` when the server has received more of a run's lines, and `stage` when a stage begins. `attempt` is
   * how often the job was started, `own` how many of its own lines an earlier daemon added in this attempt, and `unsent`
   * those of them that the server may not have.
   */
  constructor(
    port: JobPort,
    on: { delivered?: (delivered: Delivered) => void; stage?: (name: string) => void } = {},
    { attempt = 0, own = 0, unsent = [] }: { attempt?: number; own?: number; unsent?: readonly OwnLine[] } = {},
  ) {
    this.#port = port;
    this.#origin = `daemon-${attempt}`;
    this.#own = own;
    this.#onDelivered = on.delivered ?? (() => {});
    this.#onStage = on.stage ?? (() => {});
    for (const { sequence, stage, ...line } of unsent) {
      this.#stage = stage;
      this.#add(LogSource.PROVISIONER_DAEMON, line, { origin: this.#origin, sequence });
    }
  }

  /** Begins a stage with an empty line, for which clients print only the stage's name. Ignored within that stage. */
  stage(name: string): void {
    if (name === this.#stage) return;
    this.resumeStage(name);
    this.#add(LogSource.PROVISIONER_DAEMON, { level: LogLevel.INFO, output: '', at: Date.now() });
  }

  /** Sets the stage of later lines without a line that announces it. */
  resumeStage(name: string): void {
    this.#stage = name;
    this.#onStage(name);
  }

  /** The number of the daemon's own lines so far. */
  get own(): number {
    return this.#own;
  }

  /** Those of them that the server may not have. */
  get unsent(): OwnLine[] {
    const waiting = { logs: this.#lines, numbers: this.#numbers };
    return [this.#onItsWay, waiting].flatMap(({ logs, numbers }) =>
      logs.flatMap(({ level, stage, output, createdAt }, i) => {
        const { origin, sequence } = numbers[i]!;
        return origin === this.#origin ? [{ sequence, level, stage, output, at: Number(createdAt) }] : [];
      }),
    );
  }

  /**
   * Adds a line of terraform, with its number if it is from a run's log. Rejects if the log can no longer be delivered.
   */
  async line(line: LogLine, of?: RunLine): Promise<void> {
    while (this.#lines.length >= BATCH_LINES || this.#bytes >= BATCH_BYTES) await this.#send();
    if (this.#failure) throw this.#failure;
    if (of?.next !== undefined) this.#mark = { origin: of.origin, offset: of.next };
    this.#add(LogSource.PROVISIONER, line, of);
  }

  /** Adds a line of the daemon itself. */
  say(level: LogLevel, output: string): void {
    this.#add(LogSource.PROVISIONER_DAEMON, { level, output, at: Date.now() });
  }

  /** Resolves when the server has received all lines so far. */
  async flush(): Promise<void> {
    const all = this.#added;
    while (this.#done < all) await this.#send();
    if (this.#failure) throw this.#failure;
  }

  /** Ends the log. Returns its last lines, for the message that ends the job. */
  async end(): Promise<LogBatch> {
    // lines that come while a batch is on its way are part of the rest
    while (this.#sending) await this.#sending;
    if (this.#failure) throw this.#failure;
    this.#done = this.#added;
    return this.#take();
  }

  #take(): LogBatch {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const batch = { logs: this.#lines, numbers: this.#numbers };
    this.#lines = [];
    this.#numbers = [];
    this.#bytes = 0;
    return batch;
  }

  #add(source: LogSource, { level, output, at }: LogLine, number?: LogNumber): void {
    this.#numbers.push(number ?? { origin: this.#origin, sequence: ++this.#own });
    const cut = output.length > MAX_OUTPUT ? `${output.slice(0, MAX_OUTPUT)} … (cut)` : output;
    this.#lines.push(create(LogSchema, { source, level, output: cut, stage: this.#stage, createdAt: BigInt(at) }));
    this.#bytes += cut.length + 40;
    this.#added++;
    this.#sendSoon();
  }

  #sendSoon(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      void this.#send().catch(() => {});
    }, BATCH_MS);
  }

  #send(): Promise<void> {
    this.#sending ??= this.#deliver().finally(() => {
      this.#sending = undefined;
      // their time may have come while this batch was on its way
      if (this.#lines.length > 0) this.#sendSoon();
    });
    return this.#sending;
  }

  async #deliver(): Promise<void> {
    const batch = this.#take();
    const { logs, numbers } = batch;
    if (logs.length === 0) return;
    this.#onItsWay = batch;
    const mark = this.#mark;
    this.#mark = undefined;
    try {
      if (this.#failure) return;
      await this.#port.update({ logs }, numbers);
      if (mark) this.#onDelivered(mark);
    } catch (err) {
      this.#failure = err instanceof Error ? err : new Error(String(err));
    } finally {
      this.#done += logs.length;
      this.#onItsWay = NOTHING;
    }
  }
}
