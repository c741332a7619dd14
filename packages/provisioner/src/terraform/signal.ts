import { signalGroup } from '@platform/kit';
import type { Launcher } from '../isolation/client.ts';
import type { ProcessRef } from '../runner/protocol.ts';

/** Sends a signal to the process group of a run. Does nothing if the run is gone. */
export type Send = (process: ProcessRef, signal: NodeJS.Signals) => Promise<void>;

/** Returns the function that signals runs. The launcher signals processes that run as another user. */
export function sender(launcher: Launcher | undefined): Send {
  if (launcher) return (process, signal) => launcher.signal(process, signal);
  return async ({ pid }, signal) => void signalGroup(pid, signal);
}
