import type { WriteStream } from 'node:fs';
import { setImmediate as immediate } from 'node:timers/promises';
import { Log_Level } from '@ropewalk/wire/proto/agent';
import { LineSplitter, type LogSender } from './logs.ts';
import type { PipedChild } from './piped-child.ts';

/** How long background processes may hold the output open before the script counts as done, in ms. */
const PIPES_GRACE_MS = 1_000;

export interface ScriptOutputOptions {
  logs: LogSender;
  logSource: Uint8Array;
  /** The script's log file. Is ended with the output. */
  file: WriteStream | undefined;
}

/** Copies the output of one script to its log file and to the server, until the last process has closed it. */
export class ScriptOutput {
  readonly #options: ScriptOutputOptions;
  /** Resolves when the output is closed. */
  readonly closed: Promise<void>;
  #lastOutput = performance.now();
  /** The number of paused streams. Their silence is not the script's. */
  #held = 0;

  constructor({ stdout, stderr }: Pick<PipedChild, 'stdout' | 'stderr'>, options: ScriptOutputOptions) {
    this.#options = options;
    const streams = [this.#follow(stdout, Log_Level.INFO), this.#follow(stderr, Log_Level.ERROR)];
    this.closed = Promise.all(streams).then(() => {
      options.file?.end();
    });
  }

  /** Waits until the output is closed, or silent for the grace period. Returns whether it is still open. */
  isLeftOpen(): Promise<boolean> {
    const last = () => (this.#held > 0 ? performance.now() : this.#lastOutput);
    return Promise.race([this.closed.then(() => false), silence(last)]);
  }

  #follow(stream: NodeJS.ReadableStream, level: Log_Level): Promise<void> {
    const { logs, logSource } = this.#options;
    return new Promise<void>((resolve) => {
      const lines = new LineSplitter((line) => logs.add(logSource, level, line));
      stream.on('data', (chunk: Buffer) => {
        this.#lastOutput = performance.now();
        lines.push(chunk);
        this.#holdBack(stream, chunk);
      });
      stream.on('error', () => {});
      stream.on('close', () => {
        lines.end();
        resolve();
      });
    });
  }

  /** A slow disk or a busy server slows the script down. A full disk or an unreachable server must not. */
  #holdBack(stream: NodeJS.ReadableStream, chunk: Buffer): void {
    const { file, logs, logSource } = this.#options;
    const waits = [file && roomInFile(file, chunk), logs.room(logSource)].filter((wait) => wait);
    if (waits.length === 0) return;
    stream.pause();
    this.#held++;
    void Promise.all(waits).then(() => {
      this.#held--;
      this.#lastOutput = performance.now();
      stream.resume();
    });
  }
}

/**
 * Writes to a script's log. Returns undefined if the caller may go on immediately. Otherwise resolves when the log has
 * accepted the chunk or has failed.
 */
function roomInFile(file: WriteStream, chunk: Buffer): Promise<void> | undefined {
  if (file.destroyed || file.write(chunk)) return undefined;
  return new Promise((resolve) => {
    const resume = () => {
      file.off('drain', resume);
      file.off('close', resume);
      resolve();
    };
    file.on('drain', resume);
    file.on('close', resume);
  });
}

/** Resolves to true when `last` is longer ago than the grace period. */
async function silence(last: () => number): Promise<true> {
  for (let from = performance.now(); ; ) {
    const wait = Math.max(from, last()) + PIPES_GRACE_MS - performance.now();
    if (wait <= 0) return true;
    await new Promise((resolve) => setTimeout(resolve, wait).unref());
    // an agent that got no processor meanwhile first reads what is there
    await immediate();
    from = Math.min(from, performance.now());
  }
}
