import { existsSync, mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The hierarchies of version 1 and version 2 of Linux's control groups. */
const ROOTS = ['/sys/fs/cgroup/cpu', '/sys/fs/cgroup'];

/**
 * Gives a process and its descendants their own control group, as a node gives each pod: processes then share the
 * processors by pod. Without it, the scheduler treats all daemons as one group, and each of their builds as another.
 * Returns undefined where this process may not create groups.
 */
export function createPodGroup(pid: number): { remove(): void } | undefined {
  for (const root of ROOTS) {
    const all = join(root, 'test-pods');
    const group = join(all, String(pid));
    try {
      mkdirSync(group, { recursive: true });
      if (!['cpu.shares', 'cpu.weight'].some((name) => existsSync(join(group, name)))) continue;
      writeFileSync(join(group, 'cgroup.procs'), String(pid));
      return {
        remove() {
          try {
            rmdirSync(group);
            rmdirSync(all);
          } catch {
            // a process of a build is left, or another pod
          }
        },
      };
    } catch {
      // not root, or another version
    }
  }
}
