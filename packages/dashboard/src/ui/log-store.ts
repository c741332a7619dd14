/** A log that grows: fetched over one WebSocket, resumed after an interruption. */
import type { ProvisionerJobLog } from '@ropewalk/contract';

export interface LogLine {
  id: number;
  /** An ISO time. */
  at: string;
  level: string;
  /** The stage of a build, or the source of an agent's log. */
  section: string;
  text: string;
}

export type LogState = 'connecting' | 'open' | 'complete' | 'away' | 'rejected';

export interface LogSnapshot {
  /** The same array for as long as the log lives: `count` says how much of it is new. */
  lines: readonly LogLine[];
  count: number;
  state: LogState;
}

const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 8_000;
/** Lines that arrive together are rendered once. */
const GATHER_MS = 60;
/** The close code of a reader who lost the permission. */
const FORBIDDEN = 1008;

export interface LogStore {
  subscribe: (listen: () => void) => () => void;
  snapshot: () => LogSnapshot;
}

/** Follows the log at a path below /api/v2 while somebody listens. `read` turns a message into lines. */
export function createLogStore(path: string, read: (message: unknown) => LogLine[]): LogStore {
  const lines: LogLine[] = [];
  let snapshot: LogSnapshot = { lines, count: 0, state: 'connecting' };
  const listeners = new Set<() => void>();
  let socket: WebSocket | undefined;
  let retry: ReturnType<typeof setTimeout> | undefined;
  let gather: ReturnType<typeof setTimeout> | undefined;
  let retryMs = FIRST_RETRY_MS;
  let lastId = 0;

  const publish = (state: LogState = snapshot.state) => {
    clearTimeout(gather);
    gather = undefined;
    snapshot = { lines, count: lines.length, state };
    for (const listen of listeners) listen();
  };
  const take = (message: unknown) => {
    for (const line of read(message)) {
      // a connection that resumes may repeat what was underway
      if (line.id <= lastId) continue;
      lastId = line.id;
      for (const text of line.text.split('\n')) lines.push({ ...line, text });
    }
    gather ??= setTimeout(publish, GATHER_MS);
  };
  const open = () => {
    const address = new URL(`/api/v2${path}`, location.href);
    address.protocol = address.protocol.replace('http', 'ws');
    address.searchParams.set('follow', 'true');
    if (lastId > 0) address.searchParams.set('after', String(lastId));
    const current = new WebSocket(address);
    socket = current;
    current.onopen = () => {
      retryMs = FIRST_RETRY_MS;
      publish('open');
    };
    current.onmessage = ({ data }) => take(JSON.parse(String(data)));
    current.onclose = ({ code }) => {
      if (socket !== current) return;
      socket = undefined;
      if (code === 1000) return publish('complete');
      if (code === FORBIDDEN) return publish('rejected');
      publish('away');
      retry = setTimeout(open, retryMs);
      retryMs = Math.min(retryMs * 2, LONGEST_RETRY_MS);
    };
  };
  const close = () => {
    clearTimeout(retry);
    const current = socket;
    socket = undefined;
    current?.close();
  };
  return {
    subscribe(listen) {
      listeners.add(listen);
      if (listeners.size === 1 && snapshot.state !== 'complete') open();
      return () => {
        listeners.delete(listen);
        if (listeners.size === 0) close();
      };
    },
    snapshot: () => snapshot,
  };
}

/** Follows the log of a job: of a build or an import. */
export const createJobLogStore = (path: string): LogStore =>
  createLogStore(path, (message) => {
    const { id, created_at, log_level, stage, output } = message as ProvisionerJobLog;
    return [{ id, at: created_at, level: log_level, section: stage, text: output }];
  });
