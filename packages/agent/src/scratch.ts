import { lstatSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isAlive } from '@platform/kit';

const KINDS = ['pipes', 'forward'] as const;
/** agent-KIND-NAMESPACE-PID-RANDOM */
const NAME = new RegExp(`^agent-(?:${KINDS.join('|')})-(\\d+)-(\\d+)-\\w{6}$`);

/** A process's number says who it is only within its namespace, of which several may share a folder such as /tmp. */
function pidNamespace(): string {
  try {
    return /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? '0';
  } catch {
    return '0';
  }
}

/** A folder for files that the agent needs for a moment. Who takes it removes it; after a kill the next agent does. */
export function scratchDir(kind: (typeof KINDS)[number]): Promise<string> {
  return mkdtemp(join(tmpdir(), `agent-${kind}-${pidNamespace()}-${process.pid}-`));
}

/**
 * Removes what agents have left that were killed. Only folders that are ours and closed to all others: in one that
 * somebody else may change, removing could be led to other files.
 */
export function sweepScratch(base = tmpdir()): void {
  const namespace = pidNamespace();
  const names = (() => {
    try {
      return readdirSync(base);
    } catch {
      return []; // a place without a list: what is needed there will tell
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
      // taken away by another agent that starts
    }
  }
}
