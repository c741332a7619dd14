import { signalGroup } from '@platform/kit';
import type { Launcher } from '../isolation/client.ts';
import type { ProcessRef } from '../runner/protocol.ts';

/** Sends a signal to the process group of a run; quiet when it is gone. */
export type Send = (process: ProcessRef, signal: NodeJS.Signals) => Promise<void>;

/** A process of another uid is signalled by who started it so. */
export function sender(launcher: Launcher | undefined): Send {
  if (launcher) return (process, signal) => launcher.signal(process, signal);
  return async ({ pid }, signal) => void signalGroup(pid, signal);
}
