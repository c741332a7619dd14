import { signalGroup } from '@platform/kit';

/** Signals a process group; false where there is none, or none of it may be signalled (what sudo has started). */
export function tellGroup(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return signalGroup(pid, signal);
  } catch {
    return false;
  }
}

/** SIGTERM, then SIGKILL when the leader has not ended within `graceMs`, and for what it leaves behind. */
export async function stopGroup(child: { pid: number; exited: Promise<unknown> }, graceMs: number): Promise<void> {
  tellGroup(child.pid, 'SIGTERM');
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, graceMs);
  });
  await Promise.race([child.exited, limit]);
  clearTimeout(timer);
  tellGroup(child.pid, 'SIGKILL');
}
