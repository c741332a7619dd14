import { dirname } from 'node:path';
import { closedFolder, SYSTEM_PATH } from '@ropewalk/kit/reach';

/** The shell of the script has descriptors with one digit only. */
const MAX_PATHS = 6;

/**
 * Covers the closed folder `$1`, opens `$2` paths in its place, and runs the rest as a command. The paths are opened before
 * they are covered, and `mount --no-canonicalize` follows their descriptors. The folders on the way can be passed, but not
 * listed.
 */
const SCRIPT = `set -e
own=$PATH; PATH=${SYSTEM_PATH}; mask=$(umask); umask 066
closed=$1; count=$2; shift 2
n=0; for path; do [ $n -lt $count ] || break; n=$((n+1)); eval "exec $((n+2))<\\"\\$path\\""; done
mount -t tmpfs -o mode=711,size=1m tmpfs "$closed"
n=0; while [ $n -lt $count ]; do
  n=$((n+1)); fd=$((n+2))
  if [ -d /proc/self/fd/$fd ]; then mkdir -p -- "$1"; else mkdir -p -- "$(dirname -- "$1")"; : > "$1"; fi
  mount --no-canonicalize --bind /proc/self/fd/$fd "$1"
  eval "exec $fd<&-"; shift
done
umask "$mask"; PATH=$own; exec "$@"`;

/** How to run the programs of an installation below a closed folder. */
interface ProgramView {
  /** The folder that other users cannot pass. */
  closed: string;
  /** Runs another command, as root. */
  command: string[];
}

/**
 * How other users can run a program below a folder that they cannot pass, such as root's home: in a mount namespace in
 * which that folder contains nothing but the program. So the paths stay the same, and the folder stays closed. Later mounts
 * of the machine appear there, too. Undefined if no folder is closed, or if this cannot help. Systems that do not allow
 * mount namespaces fail when the command runs.
 *
 * @param paths the files and folders of the program
 * @param needed folders that must not be hidden
 */
export function programView(paths: readonly string[], needed: readonly string[]): ProgramView | undefined {
  const hidden = paths.filter((path) => closedFolder(dirname(path)));
  const [closed, ...others] = new Set(hidden.map((path) => closedFolder(dirname(path))!.path));
  if (closed === undefined || others.length > 0 || closed === '/') return undefined;
  if (needed.some((path) => isWithin(path, closed))) return undefined;
  // a folder's files come with it
  const outer = hidden.filter((path) => !hidden.some((other) => other !== path && isWithin(path, other)));
  if (outer.length > MAX_PATHS) return undefined;
  const unshare = ['unshare', '--mount', '--propagation', 'slave', '--'];
  return { closed, command: [...unshare, '/bin/sh', '-c', SCRIPT, 'sh', closed, String(outer.length), ...outer] };
}

const isWithin = (path: string, folder: string) => `${path}/`.startsWith(`${folder}/`);
