import { type Exit, signalGroup } from '@ropewalk/kit';
import type { Launcher } from '../isolation/client.ts';
import type { ProcessRef } from '../runner/protocol.ts';

/** Sends a signal to the process group of a run. Does nothing if the run is gone. */
export type Send = (process: ProcessRef, signal: NodeJS.Signals) => Promise<void>;

/**
 * Kills what a program that died of a signal has left in its process group: provisioners and providers that would go on
 * changing things that no state knows.
 */
export function endRest(pid: number, { signal }: Exit): void {
  if (signal !== null) signalGroup(pid, 'SIGKILL');
}

/** Returns the function that signals runs. The launcher signals processes that run as another user. */
export function sender(launcher: Launcher | undefined): Send {
  if (launcher) return (process, signal) => launcher.signal(process, signal);
  return async ({ pid }, signal) => void signalGroup(pid, signal);
}
