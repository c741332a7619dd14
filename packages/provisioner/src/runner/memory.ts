import { readdirSync, readFileSync } from 'node:fs';
import { totalmem } from 'node:os';

const LOOK_MS = 500;
const PAGE = 4_096;

/** What the processes of one run of Terraform may use together, in bytes: half of the machine or of the container. */
export function memoryLimit(): number {
  const container = process.constrainedMemory();
  // without a separate limit, a container reports 0 or a number beyond any machine
  const total = container > 0 ? Math.min(container, totalmem()) : totalmem();
  return Math.floor(total / 2);
}

/** The memory of a process and its descendants, in bytes. 0 where /proc does not show it. */
export function memoryOf(pid: number): number {
  try {
    const pages = Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]);
    const children = readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean),
    );
    return pages * PAGE + children.reduce((sum, child) => sum + memoryOf(Number(child)), 0);
  } catch {
    // it has ended
    return 0;
  }
}

/** Calls `onExceeded` once if a process and its descendants use more memory than this. Returns the end of the watch. */
export function watchMemory(pid: number, limit: number, onExceeded: () => void): () => void {
  const timer = setInterval(() => {
    if (memoryOf(pid) <= limit) return;
    clearInterval(timer);
    onExceeded();
  }, LOOK_MS);
  return () => clearInterval(timer);
}
