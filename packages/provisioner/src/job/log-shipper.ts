import { create } from '@bufbuild/protobuf';
import { LogLevel } from '@platform/wire/proto/provisioner';
import { type Log, LogSchema, LogSource } from '@platform/wire/proto/provisionerd';
import type { LogLine } from '../terraform/logs.ts';
import type { JobPort } from './port.ts';

const BATCH_MS = 100;
const BATCH_LINES = 1_000;
const BATCH_BYTES = 512 << 10;
/** The server keeps 1024 characters of a line. */
const MAX_OUTPUT = 4_096;

/**
 * Sends a job's log in order and in batches, one call at a time. Who adds lines waits while a batch is full and
 * under way, so a slow or absent server never grows memory.
 */
export class LogShipper {
  readonly #port: JobPort;
  readonly #onDelivered: (offset: number) => void;
  readonly #onStage: (name: string) => void;
  #stage = '';
  #lines: Log[] = [];
  #bytes = 0;
  #offset = 0;
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> | undefined;
  #failure: Error | undefined;

  /** `onDelivered` gets the highest offset given with lines that have arrived, `onStage` each stage that begins. */
  constructor(port: JobPort, on: { delivered?: (offset: number) => void; stage?: (name: string) => void } = {}) {
    this.#port = port;
    this.#onDelivered = on.delivered ?? (() => {});
    this.#onStage = on.stage ?? (() => {});
  }

  /** Begins a stage: its first line is empty, since readers print only the stage's name for it. */
  stage(name: string): void {
    this.resumeStage(name);
    this.#add(LogSource.PROVISIONER_DAEMON, { level: LogLevel.INFO, output: '', at: Date.now() });
  }

  /** Names the stage of the lines to come without announcing it. */
  resumeStage(name: string): void {
    this.#stage = name;
    this.#onStage(name);
  }

  /** A line of terraform. Rejects when the log can't be delivered any more. */
  async line(line: LogLine, offset?: number): Promise<void> {
    while (this.#lines.length >= BATCH_LINES || this.#bytes >= BATCH_BYTES) await this.#send();
    if (this.#failure) throw this.#failure;
    if (offset !== undefined) this.#offset = offset;
    this.#add(LogSource.PROVISIONER, line);
  }

  /** A line of the daemon itself. */
  say(level: LogLevel, output: string): void {
    this.#add(LogSource.PROVISIONER_DAEMON, { level, output, at: Date.now() });
  }

  /** Resolves when everything so far has arrived. */
  async flush(): Promise<void> {
    while (this.#lines.length > 0 || this.#sending) await this.#send();
    if (this.#failure) throw this.#failure;
  }

  #add(source: LogSource, { level, output, at }: LogLine): void {
    const cut = output.length > MAX_OUTPUT ? `${output.slice(0, MAX_OUTPUT)} … (cut)` : output;
    this.#lines.push(create(LogSchema, { source, level, output: cut, stage: this.#stage, createdAt: BigInt(at) }));
    this.#bytes += cut.length + 40;
    this.#timer ??= setTimeout(() => void this.#send().catch(() => {}), BATCH_MS);
  }

  #send(): Promise<void> {
    this.#sending ??= this.#deliver().finally(() => {
      this.#sending = undefined;
    });
    return this.#sending;
  }

  async #deliver(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#lines.length === 0) return;
    const logs = this.#lines;
    const offset = this.#offset;
    this.#lines = [];
    this.#bytes = 0;
    if (this.#failure) return;
    try {
      await this.#port.update({ logs });
      this.#onDelivered(offset);
    } catch (err) {
      this.#failure = err instanceof Error ? err : new Error(String(err));
    }
  }
}
