import { useMemo, useState, useSyncExternalStore } from 'react';
import { type ExcerptLine, lastError } from './log-errors.ts';
import { createJobLogStore, type LogStore } from './log-store.ts';
import type { LogTarget } from './log-view.tsx';

/** A job's log, which its view and the links to its lines share. */
export interface JobLogHandle {
  store: LogStore;
  target: LogTarget | undefined;
  /** Shows the line with this index. */
  show: (index: number) => void;
}

/** The log at a path below /api/v2. It is fetched while something shows it. `open` makes its view visible. */
export function useJobLog(path: string, open: () => void = () => {}): JobLogHandle {
  const store = useMemo(() => createJobLogStore(path), [path]);
  const [target, setTarget] = useState<LogTarget & { path: string }>();
  const show = (index: number) => {
    open();
    setTarget({ path, index });
  };
  return { store, target: target?.path === path ? target : undefined, show };
}

/**
 * The last error of a job's log. Undefined while the log is loading: the last error of a part of it would be another
 * one.
 */
export function useLastError({ store }: JobLogHandle): ExcerptLine[] | undefined {
  const { lines, count, state } = useSyncExternalStore(store.subscribe, store.snapshot);
  const isLoading = state === 'connecting' || state === 'open';
  return useMemo(() => (isLoading ? undefined : lastError(lines.slice(0, count))), [lines, count, isLoading]);
}
