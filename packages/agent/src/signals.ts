import { signalGroup } from '@ropewalk/kit';

/**
 * Signals a process group. Returns false if it does not exist or the agent may not signal it (a process started by
 * sudo).
 */
export function trySignalGroup(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return signalGroup(pid, signal);
  } catch {
    return false;
  }
}

/** Sends SIGTERM, then SIGKILL if the leader has not ended within `graceMs`, and SIGKILL to what it leaves behind. */
export async function stopGroup(child: { pid: number; exited: Promise<unknown> }, graceMs: number): Promise<void> {
  trySignalGroup(child.pid, 'SIGTERM');
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, graceMs);
  });
  await Promise.race([child.exited, limit]);
  clearTimeout(timer);
  trySignalGroup(child.pid, 'SIGKILL');
}
