import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { AppError } from './errors.ts';

export interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** A child that leads its own process group, so that everything it starts ends with it. */
export interface GroupChild {
  readonly process: ChildProcess;
  readonly pid: number;
  readonly exited: Promise<Exit>;
  /** Sends a signal to the whole group. Does nothing if the group is gone. */
  signal(signal: NodeJS.Signals): void;
  /** Sends `signal`, then SIGKILL to the whole group after `graceMs`. Resolves when the child has exited. */
  stop(signal: NodeJS.Signals, graceMs: number): Promise<Exit>;
}

/** Whether a process with this pid exists, whatever its owner. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (err) {
    return (err as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Sends a signal to a process group by its leader's pid. Returns false if the group does not exist. */
export function signalGroup(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(-pid, signal);
    return true;
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code === 'ESRCH') return false;
    throw err;
  }
}

/**
 * Starts a program in its own process group. The environment is exactly `options.env`: the child inherits nothing by
 * accident.
 */
export async function spawnGroup(
  file: string,
  args: string[],
  options: SpawnOptions & { env: NodeJS.ProcessEnv },
): Promise<GroupChild> {
  const child = spawn(file, args, { ...options, detached: true });
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve);
    child.once('error', (err) =>
      reject(new AppError('unavailable', `Could not start ${file}: ${err.message}`, { cause: err })),
    );
  });
  const pid = child.pid!;
  const exited = new Promise<Exit>((resolve) => child.once('exit', (code, signal) => resolve({ code, signal })));
  const signal = (name: NodeJS.Signals) => void signalGroup(pid, name);
  return {
    process: child,
    pid,
    exited,
    signal,
    async stop(name, graceMs) {
      signal(name);
      const timer = setTimeout(() => signal('SIGKILL'), graceMs);
      const exit = await exited;
      clearTimeout(timer);
      signal('SIGKILL'); // Grandchildren that outlived the leader.
      return exit;
    },
  };
}
