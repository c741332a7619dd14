// Commands of terraform that need no provider: init.

import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { type Exit, spawnGroup } from '@ropewalk/kit';
import type { Launcher } from '../isolation/client.ts';
import type { BuildUser } from '../isolation/protocol.ts';
import type { Env } from './env.ts';
import { EXIT_TIMEOUT_MS } from './run.ts';
import { endRest } from './signal.ts';
import type { TerraformBinary } from './version.ts';

/** The time to read a program's output after its end. Processes that it left may keep the pipe open. */
const DRAIN_MS = 5_000;

/** The directory, program and user of a command. */
export interface Where {
  dir: string;
  terraform: TerraformBinary;
  /** Absent: the user of this process. */
  as?: { user: BuildUser; launcher: Launcher };
}

export interface Command {
  stdout: Readable;
  stderr: Readable;
  exited: Promise<Exit>;
  /** Sends SIGINT, and after three minutes SIGKILL to the processes that still run. */
  stop(): Promise<void>;
  /** Sends SIGKILL to the rest of its process group. */
  kill(): Promise<void>;
}

/** Starts terraform in the directory, as the user of the job. */
export async function begin({ dir, terraform, as }: Where, args: string[], env: Env): Promise<Command> {
  if (!as) {
    const child = await spawnGroup(terraform.path, args, { cwd: dir, env, stdio: ['ignore', 'pipe', 'pipe'] });
    const { stdout, stderr } = child.process;
    const stop = async () => void (await child.stop('SIGINT', EXIT_TIMEOUT_MS));
    const kill = async () => child.signal('SIGKILL');
    void child.exited.then((exit) => endRest(child.pid, exit));
    return { stdout: stdout!, stderr: stderr!, exited: child.exited, stop, kill };
  }
  const { launcher, user } = as;
  const run = await launcher.run({ uid: user.uid, file: terraform.path, args, cwd: dir, env });
  const kill = () => launcher.signal(run.process, 'SIGKILL').catch(() => {});
  const stop = async () => {
    const timer = setTimeout(kill, EXIT_TIMEOUT_MS);
    await launcher.signal(run.process, 'SIGINT').catch(() => {});
    await run.exited.catch(() => {});
    clearTimeout(timer);
  };
  return { ...run, stop, kill };
}

interface Lines {
  done: Promise<void>;
  stop(): void;
}

export function eachLine(stream: Readable, take: (line: string) => unknown): Lines {
  const lines = createInterface({ input: stream });
  const done = (async () => {
    for await (const line of lines) await take(line);
  })();
  done.catch(() => {});
  const stop = () => {
    lines.close();
    stream.destroy();
  };
  return { done, stop };
}

/** Waits until a program has ended and its output is read. Does not wait for processes that it left with its pipes. */
export async function drained({ exited, kill }: Command, outputs: Lines[]): Promise<Exit> {
  const failed = Promise.all(outputs.map(({ done }) => done));
  const exit = await Promise.race([exited, failed.then(() => exited)]);
  const timer = setTimeout(() => {
    void kill();
    for (const output of outputs) output.stop();
  }, DRAIN_MS);
  try {
    await failed;
  } finally {
    clearTimeout(timer);
  }
  return exit;
}
