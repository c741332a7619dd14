import { readdirSync, readFileSync } from 'node:fs';

/** The uids of one installation; every uid has the group of the same number. */
export interface UidBlock {
  first: number;
  count: number;
}

export const daemonUid = ({ first }: UidBlock): number => first;

/** What the launcher reads from its standard input, as one line. It ends when that is closed and nothing runs. */
export interface LauncherInput {
  block: UidBlock;
  socketPath: string;
  /** Root's folder for the records of uids, and for their homes. */
  base: string;
  /** The daemons' folder: builds run below it. */
  daemonDir: string;
}

/**
 * The uids and gids of a process: real, effective, saved and of the file system, since a setuid program has several.
 * Undefined where it has ended; a zombie without other threads has.
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

/** The processes of this machine that have such an id, as any of their uids or gids. */
export function processesWith(has: (id: number) => boolean): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      const ids = idsOfProcess(name);
      return ids !== undefined && [...ids.uids, ...ids.gids].some(has);
    })
    .map(Number);
}
