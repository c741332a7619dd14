import type { Workspace } from '@ropewalk/contract';
import { useSyncExternalStore } from 'react';
import { makeChange } from '../../api/query.ts';
import { toast } from '../../ui/toast.tsx';
import { orderBuild } from './queries.ts';

/**
 * Stops that a person has asked for and can still undo. The server learns of them when their time is over: nobody can
 * take back a build that destroys resources. They belong to the window and not to a page, and leaving it sends them.
 */

/** How long a stop can be undone, in ms. */
const UNDO_MS = 5_000;

interface Waiting {
  timer: ReturnType<typeof setTimeout>;
  /** Removes the message. */
  dismiss: () => void;
}

const waiting = new Map<string, Waiting>();
const listeners = new Set<() => void>();

function take(id: string): boolean {
  const stop = waiting.get(id);
  if (!stop) return false;
  clearTimeout(stop.timer);
  waiting.delete(id);
  stop.dismiss();
  for (const listen of listeners) listen();
  return true;
}

const send = (id: string) => orderBuild(id, { transition: 'stop' });

/** Stops a workspace in five seconds, unless the person undoes it. */
export function stopSoon({ id, owner_name, name }: Pick<Workspace, 'id' | 'owner_name' | 'name'>): void {
  if (waiting.has(id)) return;
  const dismiss = toast({
    tone: 'neutral',
    title: `Stopping ${owner_name}/${name}`,
    detail: 'It begins in five seconds.',
    action: { name: 'Undo', run: () => undoStop(id) },
    shownMs: UNDO_MS,
  });
  const timer = setTimeout(() => {
    if (take(id)) makeChange(() => send(id));
  }, UNDO_MS);
  waiting.set(id, { timer, dismiss });
  for (const listen of listeners) listen();
}

/** Keeps a workspace running that would stop soon. */
export function undoStop(id: string): void {
  take(id);
}

/** Sends the stops that still wait, for the end of the session or the window. */
export async function sendWaitingStops(): Promise<void> {
  const ids = [...waiting.keys()].filter(take);
  await Promise.allSettled(ids.map(send));
}

/** Whether a workspace stops soon. */
export const useStopsSoon = (id: string): boolean =>
  useSyncExternalStore(
    (listen) => {
      listeners.add(listen);
      return () => listeners.delete(listen);
    },
    () => waiting.has(id),
  );

// a phone may end a hidden window without another event
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'hidden') void sendWaitingStops();
});
addEventListener('pagehide', () => void sendWaitingStops());
