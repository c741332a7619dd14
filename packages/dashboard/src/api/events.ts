/**
 * The tab's one event stream. The server sends the ids of objects that changed, and the queries that watch them are
 * fetched again. After an interruption the stream resumes with what was missed.
 */
import type { Change } from '@platform/contract';
import { useSyncExternalStore } from 'react';
import { queryClient, type Watch } from './query.ts';
import { signedOut } from './session.ts';

export type Connection = 'connecting' | 'open' | 'away';

interface State {
  connection: Connection;
  /** The server's version when this page was loaded, and now. They differ after an upgrade. */
  firstVersion: string | undefined;
  version: string | undefined;
}

/** How long a stream may be silent. The server sends a ping every 15 seconds. */
const SILENCE_MS = 40_000;
/** A short interruption is not worth a banner. */
const AWAY_AFTER_MS = 2_000;
const FIRST_RETRY_MS = 300;
const LONGEST_RETRY_MS = 5_000;
/** Changes that come together are one fetch. */
const GATHER_MS = 50;
/** The shortest time between two fetches of the same query that changes cause. */
const AGAIN_MS = 500;

let state: State = { connection: 'connecting', firstVersion: undefined, version: undefined };
const listeners = new Set<() => void>();
let source: EventSource | undefined;
let lastId = '';
let retryMs = FIRST_RETRY_MS;
let heardAt = 0;
let awayTimer: ReturnType<typeof setTimeout> | undefined;
let retryTimer: ReturnType<typeof setTimeout> | undefined;

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

/** Opens the stream and keeps it open until the page ends or `stopEvents`. */
export function startEvents(): void {
  if (source || retryTimer) return;
  open();
  const watchdog = setInterval(() => {
    // after sleep the old connection can look open for minutes
    if (source && Date.now() - heardAt > SILENCE_MS) reconnect();
  }, 5_000);
  const wake = () => {
    if (document.visibilityState === 'visible' && state.connection !== 'open') reconnect();
  };
  addEventListener('online', reconnect);
  document.addEventListener('visibilitychange', wake);
  stop = () => {
    clearInterval(watchdog);
    removeEventListener('online', reconnect);
    document.removeEventListener('visibilitychange', wake);
    close();
    clearTimeout(retryTimer);
    clearTimeout(awayTimer);
    retryTimer = awayTimer = undefined;
    lastId = '';
  };
}

let stop = () => {};
/** Ends the stream, at sign-out. */
export const stopEvents = (): void => stop();

function reconnect(): void {
  retryMs = FIRST_RETRY_MS;
  close();
  open();
}

function close(): void {
  source?.close();
  source = undefined;
}

function open(): void {
  clearTimeout(retryTimer);
  retryTimer = undefined;
  heardAt = Date.now();
  const current = new EventSource(`/api/v2/events?${new URLSearchParams(lastId ? { last_event_id: lastId } : {})}`);
  source = current;
  const on = (name: string, take: (data: string) => void) =>
    current.addEventListener(name, (event) => {
      heardAt = Date.now();
      if (event.lastEventId) lastId = event.lastEventId;
      take(event.data);
    });
  on('hello', (data) => {
    const { version } = JSON.parse(data) as { version: string };
    retryMs = FIRST_RETRY_MS;
    clearTimeout(awayTimer);
    awayTimer = undefined;
    set({ connection: 'open', version, firstVersion: state.firstVersion ?? version });
    // queries that failed while the server was away
    void queryClient.refetchQueries({ type: 'active', predicate: (query) => query.state.status === 'error' });
  });
  on('ping', () => {});
  on('change', (data) => changed(JSON.parse(data) as Change));
  on('reset', () => void queryClient.invalidateQueries());
  current.onerror = () => {
    if (source !== current) return;
    close();
    awayTimer ??= setTimeout(() => set({ connection: 'away' }), AWAY_AFTER_MS);
    void checkSession();
    retryTimer = setTimeout(open, retryMs * (0.75 + Math.random() / 2));
    retryMs = Math.min(retryMs * 2, LONGEST_RETRY_MS);
  };
}

/** An EventSource does not report why it failed: a lost session needs a sign-in, everything else another attempt. */
async function checkSession(): Promise<void> {
  const status = await fetch('/api/v2/users/me').then(
    (answer) => answer.status,
    () => 0,
  );
  if (status === 401) signedOut();
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
