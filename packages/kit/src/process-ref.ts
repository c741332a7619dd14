import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** Identifies a process for ever. A pid alone does not, because the system reuses pids. */
export interface ProcessRef {
  pid: number;
  /** Opaque text that differs between two processes that had the same pid. Empty if the system does not provide it. */
  startTime: string;
}

/** A reference to the running process with this pid. Undefined if no such process runs. */
export function processRef(pid: number): ProcessRef | undefined {
  if (process.platform === 'linux') {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      // The name in parentheses can contain spaces. The state is field 3 and the start time field 22 of proc(5).
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return fields[0] === 'Z' ? undefined : { pid, startTime: fields[19] ?? '' };
    } catch {
      return undefined;
    }
  }
  try {
    const out = execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8', timeout: 5_000 });
    return { pid, startTime: out.trim() };
  } catch {
    return undefined;
  }
}

/** A reference to no process. */
export const DEAD: ProcessRef = { pid: 0, startTime: '' };

/** Whether both name the same process, which may have ended. */
export const isSame = (a: ProcessRef, b: ProcessRef): boolean => a.pid === b.pid && a.startTime === b.startTime;

/** Whether this process still runs. False for another process with the same pid. */
export function isAlive(ref: ProcessRef): boolean {
  if (ref.pid === DEAD.pid) return false;
  const now = processRef(ref.pid);
  return now !== undefined && isSame(now, ref);
}

/**
 * Reads the process that a file names. The writers create such files together with their content, so only a loss of power
 * leaves a damaged one. It counts as that of a dead process. Undefined if the file is gone.
 */
export function readRef(path: string): ProcessRef | undefined {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw err;
  }
  try {
    const { pid, startTime } = JSON.parse(text) as ProcessRef;
    if (Number.isInteger(pid) && typeof startTime === 'string') return { pid, startTime };
  } catch {
    // damaged
  }
  return DEAD;
}
