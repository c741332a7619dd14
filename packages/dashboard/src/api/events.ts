/**
 * Keeps what a tab shows current. The server's event stream has the ids of objects that changed, and the queries that
 * watch them are fetched again. All tabs of a browser share one stream.
 */
import type { Change } from '@ropewalk/contract';
import { useSyncExternalStore } from 'react';
import { openEventStream, type StreamEvent } from './event-stream.ts';
import type { TabMessage } from './event-worker.ts';
import { queryClient, type Watch } from './query.ts';
import { signedOut } from './session.ts';

export type Connection = 'connecting' | 'open' | 'away';

interface State {
  connection: Connection;
  /** The server's version when this page was loaded, and now. They differ after an upgrade. */
  firstVersion: string | undefined;
  version: string | undefined;
}

/** Changes that come together are one fetch. */
const GATHER_MS = 50;
/** The shortest time between two fetches of the same query that changes cause. */
const AGAIN_MS = 500;
/** When to fetch again what the page had fetched before its stream was open: after the page is there. */
const SETTLE_MS = 1_500;

/** When to fetch the stream's worker again after it could not be fetched. */
const WORKER_RETRY_MS = 1_000;

let state: State = { connection: 'connecting', firstVersion: undefined, version: undefined };
const listeners = new Set<() => void>();

function set(next: Partial<State>): void {
  state = { ...state, ...next };
  for (const listen of listeners) listen();
}

/** The state of the connection, for the banner and the notice after an upgrade. */
export function useConnection(): State {
  return useSyncExternalStore(
    (listen) => {
      listeners.add(listen);
      return () => listeners.delete(listen);
    },
    () => state,
  );
}

let stop: (() => void) | undefined;

/** Follows the stream until the page ends or `stopEvents`. */
export function startEvents(): void {
  if (stop) return;
  const { wake, close } = connect();
  const onVisible = () => {
    if (document.visibilityState === 'visible') wake();
  };
  addEventListener('online', wake);
  document.addEventListener('visibilitychange', onVisible);
  // a tab that is closed must not keep the stream. The browser may show its page again
  const onShow = ({ persisted }: PageTransitionEvent) => {
    if (!persisted) return;
    stopEvents();
    startEvents();
    void queryClient.invalidateQueries();
  };
  addEventListener('pagehide', close);
  addEventListener('pageshow', onShow);
  stop = () => {
    removeEventListener('online', wake);
    document.removeEventListener('visibilitychange', onVisible);
    removeEventListener('pagehide', close);
    removeEventListener('pageshow', onShow);
    close();
  };
}

/** Stops following, at sign-out. */
export function stopEvents(): void {
  stop?.();
  stop = undefined;
}

/** The stream of all tabs, or one of this tab where the browser has no shared workers. */
function connect(): { wake: () => void; close: () => void } {
  if (typeof SharedWorker === 'undefined') return openEventStream(take);
  let worker: SharedWorker;
  let retry: ReturnType<typeof setTimeout> | undefined;
  const say = (message: TabMessage) => worker.port.postMessage(message);
  const start = () => {
    worker = new SharedWorker(new URL('./event-worker.ts', import.meta.url), { type: 'module', name: 'events' });
    worker.port.onmessage = ({ data }: MessageEvent<StreamEvent>) => take(data);
    // its script could not be fetched: the server went away after the page was there
    worker.onerror = () => {
      set({ connection: 'away' });
      retry = setTimeout(start, WORKER_RETRY_MS);
    };
    say('start');
  };
  start();
  return {
    wake: () => say('wake'),
    close() {
      clearTimeout(retry);
      say('stop');
    },
  };
}

function take(event: StreamEvent): void {
  switch (event.type) {
    case 'open': {
      const first = state.firstVersion === undefined;
      set({ connection: 'open', version: event.version, firstVersion: state.firstVersion ?? event.version });
      if (first) setTimeout(refetchOlder, SETTLE_MS, Date.now());
      // queries that failed while the server was away
      void queryClient.refetchQueries({ type: 'active', predicate: (query) => query.state.status === 'error' });
      break;
    }
    case 'away':
      set({ connection: 'away' });
      break;
    case 'change':
      changed(event.change);
      break;
    case 'reset':
      void queryClient.invalidateQueries();
      break;
    case 'signed-out':
      signedOut();
  }
}

/** Fetches again what the page had fetched before the stream was open: a change in between was not reported. */
function refetchOlder(openedAt: number): void {
  void queryClient.refetchQueries({
    type: 'active',
    predicate: ({ meta, state: { dataUpdatedAt } }) => Boolean(meta?.watches?.length) && dataUpdatedAt < openedAt,
  });
}

let gathered: Change[] = [];
const fetchedAt = new Map<string, number>();

function changed(change: Change): void {
  gathered.push(change);
  if (gathered.length === 1) setTimeout(deliver, GATHER_MS);
}

function deliver(): void {
  const changes = gathered;
  gathered = [];
  const now = Date.now();
  for (const query of queryClient.getQueryCache().getAll()) {
    const watches = query.meta?.watches ?? [];
    if (!changes.some((change) => watches.some((watch) => concerns(change, watch)))) continue;
    const wait = (fetchedAt.get(query.queryHash) ?? 0) + AGAIN_MS - now;
    if (wait > 0) {
      // the last change of a burst must not be missed
      later(query.queryHash, wait);
    } else invalidate(query.queryHash);
  }
}

const waiting = new Set<string>();
function later(hash: string, wait: number): void {
  if (waiting.has(hash)) return;
  waiting.add(hash);
  setTimeout(() => {
    waiting.delete(hash);
    invalidate(hash);
  }, wait);
}

function invalidate(hash: string): void {
  fetchedAt.set(hash, Date.now());
  void queryClient.invalidateQueries({ predicate: (query) => query.queryHash === hash });
}

/** Whether a change concerns what a query watches. */
export function concerns(change: Change, watch: Watch): boolean {
  if (watch.kind === change.kind)
    return watch.id === undefined || watch.id === change.id || hasParent(change, watch.id);
  // a build's job changes its workspace, and an import's its version
  if (change.workspace_id !== undefined)
    return watch.kind === 'workspace' && (watch.id ?? change.workspace_id) === change.workspace_id;
  const { template_version_id: version, template_id: template } = change;
  return (
    change.kind === 'job' &&
    watch.kind === 'template_version' &&
    version !== undefined &&
    (watch.id === undefined || watch.id === version || watch.id === template)
  );
}

function hasParent(change: Change, id: string): boolean {
  return change.workspace_id === id || change.template_id === id || change.organization_id === id;
}
