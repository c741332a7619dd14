import { chmodSync, mkdtempSync, readFileSync, rmSync, watch, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { AppError } from '@ropewalk/kit';
import { isAlive, readRef } from '@ropewalk/kit/process-ref';
import { LogLevel } from '@ropewalk/wire/proto/provisioner';
import type { ProcessRef, RunExit } from '../runner/protocol.ts';
import { parseRecord, RecordReader } from '../runner/tail.ts';
import { convertRecord, errorSummary, type LogLine, PrintedErrors, parseTerraformLine } from './logs.ts';
import type { Progress, TimingStage } from './progress.ts';
import type { Send } from './signal.ts';

/** The time between SIGINT and SIGKILL. */
export const EXIT_TIMEOUT_MS = 3 * 60_000;
/** The interval of checks in case a wake-up is missing. Adopted runs have no other wake-ups. */
const POLL_MS = 100;
/** The time to wait for the exit file after terraform's end. The runner first reads the pipes for at most 2 s. */
const WORDLESS_MS = 10_000;
/** The longest path of a Unix socket that every system supports. */
const MAX_SOCKET_PATH = 100;

/** The files of one run, in the session's directory. */
export interface RunFiles {
  logPath: string;
  startedPath: string;
  exitPath: string;
}

export function runFiles(sessionDir: string, id: string): RunFiles {
  const path = (kind: string) => join(sessionDir, `${id}.${kind}`);
  return { logPath: path('log'), startedPath: path('started'), exitPath: path('exit') };
}

const SOCKETS_NOTE = 'sockets';
/** A provider that ends late can put its socket into a folder that is being removed. */
const REMOVAL = { recursive: true, force: true, maxRetries: 5, retryDelay: 20 } as const;

/**
 * Creates a directory of mode 0700 for a provider's socket: in the session's directory if the path is short enough,
 * otherwise a temporary one, for builds with separate uids in `shared`. The session stores the path of a temporary one, because a killed daemon does not remove
 * it.
 */
export function socketDir(sessionDir: string, shared?: string): { path: string; remove(): void } {
  if (join(sessionDir, 'provider-00.sock').length <= MAX_SOCKET_PATH) return { path: sessionDir, remove: () => {} };
  const path = mkdtempSync(join(shared ?? tmpdir(), 'prov-'));
  // the build's uid must be able to enter it. The mode of the socket controls who may connect.
  if (shared !== undefined) chmodSync(path, 0o711);
  writeFileSync(join(sessionDir, SOCKETS_NOTE), basename(path), { mode: 0o600 });
  return { path, remove: () => rmSync(path, REMOVAL) };
}

/** Removes the temporary directory that the session's last run may have left. */
export function removeSockets(sessionDir: string, shared?: string): void {
  let name = '';
  try {
    name = readFileSync(join(sessionDir, SOCKETS_NOTE), 'utf8');
  } catch {
    // there was none
  }
  // the template's commands can write there too
  if (/^prov-\w{6}$/.test(name)) rmSync(join(shared ?? tmpdir(), name), REMOVAL);
}

export interface FollowOptions {
  /** The name of the command for errors: `apply`, `plan`, … */
  command: string;
  files: RunFiles;
  /** Undefined if terraform has already ended or could not start. */
  terraform: ProcessRef | undefined;
  /** The exit that the runner reports. Absent for a run that an earlier daemon started. */
  exited?: Promise<RunExit>;
  /** The process that will write the exit file. */
  runner: ProcessRef;
  onOutput?: (wake: () => void) => void;
  stage: TimingStage;
  progress: Progress;
  /**
   * Receives the log in order. `next` is the offset of the next record, on the last line of a record. Reading waits for
   * this, so a slow server makes a file grow and not memory.
   */
  onLog: (line: LogLine, next: number | undefined) => Promise<void> | void;
  /** The offset of the first undelivered byte of the log. */
  logOffset?: number;
  /** Ends the run, with SIGINT to its group and later SIGKILL. */
  signal: AbortSignal;
  exitTimeoutMs?: number;
  send: Send;
}

export interface RunResult {
  exit: RunExit;
  /** The text of each error that terraform reported. */
  errors: string[];
  /** Whether terraform reported that it has applied all changes. It does so after a success only. */
  applied: boolean;
}

/** Follows a run to its end and delivers its log. The run itself continues without a follower. */
export async function followRun(options: FollowOptions): Promise<RunResult> {
  const { files, terraform, progress, stage } = options;
  const errors: string[] = [];
  let applied = false;
  const printed = new PrintedErrors();
  const killer = cancelOn(options, terraform);
  const waker = new Waker();
  options.onOutput?.(() => waker.wake());
  let exit: RunExit | undefined;
  let lost: Error | undefined;
  const ended = (options.exited ?? exitFromFile(files.exitPath, options.runner, terraform)).then(
    (value) => {
      exit = value;
    },
    (err) => {
      lost = err as Error;
    },
  );
  void ended.then(() => waker.wake());

  // Events are read immediately and apart from the log, because checkpoints need them before a slow log has arrived.
  const events = new RecordReader(files.logPath);
  const readEvents = async () => {
    for await (const record of events.read()) {
      if (record.kind === 'e') printed.take(record.text);
      if (record.kind !== 'o' || !/"(?:hook|diagnostic|changes)":/.test(record.text)) continue;
      const line = parseTerraformLine(record.text);
      if (!line) continue;
      progress.take(line, stage, record.at);
      if (line.type === 'change_summary' && line.changes?.operation !== 'plan') applied = true;
      const summary = errorSummary(line);
      if (summary && errors.length < 20) errors.push(summary);
    }
  };
  const log = new RecordReader(files.logPath, options.logOffset);
  let logFailed = false;
  const readLog = async () => {
    for await (const record of log.read()) {
      if (logFailed) continue;
      try {
        const lines = convertRecord(record);
        for (const [i, line] of lines.entries())
          await options.onLog(line, i === lines.length - 1 ? record.next : undefined);
      } catch {
        // The log can no longer be delivered, and its owner handles that. The run continues and is followed to its end.
        logFailed = true;
      }
    }
  };
  const loop = async (read: () => Promise<void>) => {
    const isOver = () => exit !== undefined || lost !== undefined;
    for (;;) {
      const over = isOver();
      await read();
      if (over) return;
      // it may have ended while a line was delivered
      if (!isOver()) await waker.wait(POLL_MS);
    }
  };
  try {
    await Promise.all([loop(readEvents), loop(readLog), ended]);
  } finally {
    killer();
    events.close();
    log.close();
  }
  if (lost) {
    // Terraform cannot finish without its provider, and nobody may read a state that it still writes.
    await reap(options, terraform);
    throw lost;
  }
  const { lost: missing } = exit!;
  if (missing) {
    const output = `${missing.count} lines were lost: ${missing.why}`;
    const records = missing.errors.flatMap((text) => parseRecord(text) ?? []);
    for (const { text } of records) {
      const line = parseTerraformLine(text);
      const summary = line && errorSummary(line);
      if (summary && errors.length < 20) errors.push(summary);
      else printed.take(text);
    }
    const lines = [{ level: LogLevel.WARN, output, at: exit!.finishedAt }, ...records.flatMap(convertRecord)];
    if (!logFailed) for (const line of lines) await Promise.resolve(options.onLog(line, undefined)).catch(() => {});
  }
  return { exit: exit!, errors: errors.length > 0 ? errors : printed.errors, applied };
}

/** Asks the run to stop when the signal fires. Returns the function that cancels this. */
type Ending = Pick<FollowOptions, 'signal' | 'send' | 'exitTimeoutMs'>;

function cancelOn(options: Ending, terraform: ProcessRef | undefined): () => void {
  const { signal, send, exitTimeoutMs = EXIT_TIMEOUT_MS } = options;
  let timer: NodeJS.Timeout | undefined;
  const stop = () => {
    if (!terraform || !isAlive(terraform)) return;
    void send(terraform, 'SIGINT').catch(() => {});
    timer = setTimeout(() => {
      if (isAlive(terraform)) void send(terraform, 'SIGKILL').catch(() => {});
    }, exitTimeoutMs);
  };
  if (signal.aborted) stop();
  else signal.addEventListener('abort', stop, { once: true });
  return () => {
    signal.removeEventListener('abort', stop);
    clearTimeout(timer);
  };
}

async function reap(options: Ending, terraform: ProcessRef | undefined): Promise<void> {
  const { send, exitTimeoutMs = EXIT_TIMEOUT_MS } = options;
  const limit = performance.now() + exitTimeoutMs;
  for (let interrupted = false; terraform && isAlive(terraform); interrupted = true) {
    if (!interrupted) await send(terraform, 'SIGINT').catch(() => {});
    if (performance.now() > limit) await send(terraform, 'SIGKILL').catch(() => {});
    await delay(POLL_MS);
  }
}

/** Waits for the exit file of a run that another daemon started. */
async function exitFromFile(path: string, runner: ProcessRef, terraform: ProcessRef | undefined): Promise<RunExit> {
  const waker = new Waker();
  const watcher = watch(dirname(path), () => waker.wake());
  watcher.on('error', () => {});
  let endedAt: number | undefined;
  try {
    for (;;) {
      // In this order, because a runner that ends between the two checks has already written the file.
      const alive = isAlive(runner);
      const exit = await readExit(path);
      if (exit) return exit;
      if (!alive) throw new AppError('unavailable', 'Terraform and the process that ran it have died.');
      if (terraform && !isAlive(terraform)) endedAt ??= performance.now();
      if (endedAt !== undefined && performance.now() - endedAt > WORDLESS_MS)
        throw new AppError('unavailable', 'Terraform has ended, but its exit status could not be stored.');
      await waker.wait(POLL_MS);
    }
  } finally {
    watcher.close();
  }
}

/** The process of terraform. Undefined if it has not started. */
export async function readStarted(path: string): Promise<ProcessRef | undefined> {
  return readRef(path);
}

/** The outcome of a run. Undefined while the run continues, and if a loss of power has damaged the file. */
export async function readExit(path: string): Promise<RunExit | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as RunExit;
  } catch (err) {
    if (err instanceof SyntaxError || (err as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw err;
  }
}

/** Waits that a wake-up ends early. A wake-up between two waits ends the next one. */
export class Waker {
  #waiting = new Set<() => void>();
  #version = 0;
  #seen = 0;

  wake(): void {
    this.#version++;
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }

  async wait(ms: number): Promise<void> {
    if (this.#seen !== this.#version) {
      this.#seen = this.#version;
      return;
    }
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#waiting.add(resolve);
      timer = setTimeout(() => {
        this.#waiting.delete(resolve);
        resolve();
      }, ms);
    });
    clearTimeout(timer);
    this.#seen = this.#version;
  }
}

/** Terraform's status after a crash: Go's own, and that of Terraform's handler. */
const CRASHED: readonly (number | null)[] = [2, 11];

/** Upstream's text for a failed command. `canceled`: the job's signal. */
export function exitText(command: string, exit: RunExit, canceled: AbortSignal): string {
  if (exit.error) return `terraform ${command}: ${exit.error}`;
  const crash = CRASHED.includes(exit.code) ? '. Terraform crashed, and the end of the log says where' : '';
  return `terraform ${command}: ${statusText(exit, canceled)}${crash}`;
}

/** How a program ended. Upstream's text, and for a signal its usual cause. */
export function statusText({ code, signal }: Pick<RunExit, 'code' | 'signal'>, canceled: AbortSignal): string {
  if (!signal) return `exit status ${code}`;
  const isForeign = signal === 'SIGKILL' && !canceled.aborted;
  const why = isForeign ? '. Something else killed Terraform, often the system because its memory was full' : '';
  return `signal: ${signal}${why}`;
}
