import { lstatSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isAlive } from '@ropewalk/kit';

const KINDS = ['forward', 'socket'] as const;
/** agent-KIND-NAMESPACE-PID-RANDOM */
const NAME = new RegExp(`^agent-(?:${KINDS.join('|')})-(\\d+)-(\\d+)-\\w{6}$`);

/** A pid identifies a process only within its namespace, and several namespaces may share a directory such as /tmp. */
function pidNamespace(): string {
  try {
    return /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? '0';
  } catch {
    return '0';
  }
}

/** Creates a directory for short-lived files. The caller removes it. After a kill the next agent does. */
export function scratchDir(kind: (typeof KINDS)[number]): Promise<string> {
  return mkdtemp(join(tmpdir(), `agent-${kind}-${pidNamespace()}-${process.pid}-`));
}

/**
 * Removes what killed agents left. Only directories that we own and nobody else can write to: in others, someone could
 * redirect the removal to other files.
 */
export function sweepScratch(base = tmpdir()): void {
  const namespace = pidNamespace();
  const names = (() => {
    try {
      return readdirSync(base);
    } catch {
      return []; // A directory that cannot be listed. Later use of it reports the error.
    }
  })();
  for (const name of names) {
    const [, owner, pid] = NAME.exec(name) ?? [];
    if (owner !== namespace || isAlive(Number(pid))) continue;
    try {
      const path = join(base, name);
      const found = lstatSync(path);
      const isOurs = process.getuid === undefined || (found.uid === process.getuid() && (found.mode & 0o077) === 0);
      if (found.isDirectory() && isOurs) rmSync(path, { recursive: true, force: true });
    } catch {
      // Another starting agent removed it.
    }
  }
}
