import { spawnSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { dirname } from 'node:path';

const PROBE_MS = 10_000;
/** Where root finds the programs of the system, whatever its own environment says. */
export const SYSTEM_PATH = '/usr/sbin:/usr/bin:/sbin:/bin';

/** A folder that other users cannot pass. */
interface ClosedFolder {
  path: string;
  /** Its permission bits. */
  mode: number;
}

/**
 * The first folder on the way to `path`, itself included, that other users cannot pass. Passing needs only the x bit:
 * without the r bit they cannot list the folder, which nobody needs to do on the way.
 */
export function closedFolder(path: string): ClosedFolder | undefined {
  const above = path === dirname(path) ? undefined : closedFolder(dirname(path));
  if (above) return above;
  const mode = statSync(path).mode & 0o7777;
  return (mode & 0o001) === 0 ? { path, mode } : undefined;
}

/**
 * Why a uid cannot use these files and folders, and how to change that. Asks the system, which also knows access
 * control lists and mounts. Undefined if it can. `within` is a command that runs another one with other mounts.
 */
export function whyUnreachable(
  uid: number,
  wanted: { read?: string[]; run?: string; write?: string[]; within?: readonly string[] | undefined },
): string | undefined {
  const { read = [], run, write = [], within } = wanted;
  const needs = [
    ...read.map((path) => ({ path, flag: '-r', verb: 'read', bits: 'a+r' })),
    ...(run === undefined ? [] : [{ path: run, flag: '-x', verb: 'run', bits: 'a+rx' }]),
    ...write.map((path) => ({ path, flag: '-w', verb: 'write', bits: 'u+rwx' })),
  ];
  const script = 'n=1; while [ $# -gt 0 ]; do [ "$1" "$2" ] || exit $n; n=$((n+1)); shift 2; done';
  const shell = ['/bin/sh', '-c', script, 'sh', ...needs.flatMap(({ flag, path }) => [flag, path])];
  // only root can change mounts
  const become = ['setpriv', '--reuid', String(uid), '--regid', String(uid), '--clear-groups', '--', ...shell];
  const [file, ...args] = (within ? [...within, ...become] : shell) as [string, ...string[]];
  const as = within ? { env: { PATH: SYSTEM_PATH } } : { env: {}, uid, gid: uid };
  const { status, error } = spawnSync(file, args, { cwd: '/', timeout: PROBE_MS, ...as });
  if (error) return `No process can run as their user: ${error.message}.`;
  if (status === 0) return undefined;
  // another status is that of `within`
  const failed = needs[(status ?? 1) - 1] ?? needs[0]!;
  const closed = closedFolder(dirname(failed.path));
  const what = `Their user cannot ${failed.verb} ${JSON.stringify(failed.path)}`;
  if (closed) {
    const mode = closed.mode.toString(8).padStart(3, '0');
    return `${what}, because the folder ${JSON.stringify(closed.path)} has mode ${mode}. Run "chmod o+x ${closed.path}".`;
  }
  return `${what}. Run "chmod ${failed.bits} ${failed.path}".`;
}
