import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { setTimeout as delay, setImmediate as immediate } from 'node:timers/promises';
import { AppError, spawnGroup } from '@ropewalk/kit';
import { LineSplitter } from '../logs.ts';
import { stopGroup } from '../signals.ts';

/** The maximum number of bytes that are kept of a program's output. */
const MAX_OUTPUT = 16 * 1024 * 1024;
/** How much of a failed program's last messages an error contains. */
const MAX_MESSAGE = 2_000;
const KILL_GRACE_MS = 2_000;
const OPEN_OUTPUT_MS = 1_000;

export interface Surroundings {
  env: NodeJS.ProcessEnv;
  cwd: string;
}

export interface RunOptions {
  /** Called with each line of stderr. */
  onLine?: (line: string) => void;
  timeoutMs?: number;
  signal?: AbortSignal;
}

export interface Ended {
  code: number;
  stdout: string;
  /** The end of stderr. */
  messages: string;
}

/** Whether a command is in PATH. */
export function isInstalled(command: string, { PATH = '' }: NodeJS.ProcessEnv): boolean {
  return PATH.split(delimiter).some((dir) => {
    try {
      accessSync(join(dir, command), constants.X_OK);
      return dir !== '';
    } catch {
      return false;
    }
  });
}

/**
 * Runs a program to its end and returns its output. The signal and the timeout stop it with everything that it started.
 * @throws AppError `unavailable` if it could not start, took too long or was stopped
 */
export async function runProgram(
  file: string,
  args: string[],
  { env, cwd }: Surroundings,
  { onLine, timeoutMs, signal }: RunOptions = {},
): Promise<Ended> {
  const child = await spawnGroup(file, args, { env, cwd, stdio: ['ignore', 'pipe', 'pipe'] });
  const { stdout, stderr } = child.process;
  const output: Buffer[] = [];
  let size = 0;
  let messages = '';
  const lines = new LineSplitter((line) => onLine?.(line));
  stdout!.on('data', (chunk: Buffer) => {
    size += chunk.length;
    if (size <= MAX_OUTPUT) output.push(chunk);
  });
  stderr!.on('data', (chunk: Buffer) => {
    messages = (messages + chunk.toString('utf8')).slice(-MAX_MESSAGE);
    lines.push(chunk);
  });
  const closed = Promise.all([stdout!, stderr!].map((stream) => new Promise((done) => stream.once('close', done))));
  let stopped = '';
  const stop = (reason: string) => {
    stopped ||= reason;
    void stopGroup(child, KILL_GRACE_MS);
  };
  const aborted = () => stop('was stopped');
  const timer = timeoutMs === undefined ? undefined : setTimeout(() => stop('took too long'), timeoutMs);
  signal?.addEventListener('abort', aborted, { once: true });
  if (signal?.aborted) aborted();
  const exit = await child.exited;
  // what it left in the background may hold its output open
  const waited = delay(OPEN_OUTPUT_MS, undefined, { ref: false });
  // an agent that got no processor meanwhile first reads what is there
  await Promise.race([closed, waited.then(() => immediate())]);
  lines.end();
  clearTimeout(timer);
  signal?.removeEventListener('abort', aborted);
  if (stopped) throw new AppError('unavailable', `"${[file, ...args].join(' ').slice(0, 200)}" ${stopped}.`);
  return { code: exit.code ?? 255, stdout: Buffer.concat(output).toString('utf8'), messages: messages.trim() };
}
