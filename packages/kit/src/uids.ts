import { readdirSync, readFileSync } from 'node:fs';

/** The uids of one installation. Every uid has a group of the same number. */
export interface UidBlock {
  first: number;
  count: number;
}

export const daemonUid = ({ first }: UidBlock): number => first;

/** The one line that the launcher reads from its standard input. It ends when the input is closed and nothing runs. */
export interface LauncherInput {
  block: UidBlock;
  socketPath: string;
  /** Root's directory for the records of uids, and for their homes. */
  base: string;
  /** The daemons' directory. Builds run below it. */
  daemonDir: string;
}

/**
 * The uids and gids of a process: real, effective, saved and of the file system, since a setuid program has several.
 * Undefined if the process has ended. A zombie without other threads has ended.
 */
export function idsOfProcess(pid: number | string): { uids: number[]; gids: number[] } | undefined {
  let status: string;
  try {
    status = readFileSync(`/proc/${pid}/status`, 'utf8');
  } catch {
    return undefined;
  }
  const field = (name: string) => new RegExp(`^${name}:\\s+(.*)$`, 'm').exec(status)?.[1] ?? '';
  if (field('State').startsWith('Z') && Number(field('Threads')) <= 1) return undefined;
  const numbers = (name: string) => field(name).split(/\s+/).filter(Boolean).map(Number);
  return { uids: numbers('Uid'), gids: numbers('Gid') };
}

/** The processes of this machine with a matching uid or gid. */
export function processesWith(has: (id: number) => boolean): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      const ids = idsOfProcess(name);
      return ids !== undefined && [...ids.uids, ...ids.gids].some(has);
    })
    .map(Number);
}
