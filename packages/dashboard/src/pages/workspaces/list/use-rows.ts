import type { Workspace } from '@ropewalk/contract';
import { useQueries } from '@tanstack/react-query';
import { useCallback, useRef, useState } from 'react';
import { LIST_PAGE, workspacesQuery } from '../queries.ts';

export interface Rows {
  /** Undefined until the first answer. */
  count: number | undefined;
  /** Undefined while its page is loading. */
  at: (index: number) => Workspace | undefined;
  loaded: readonly Workspace[];
  error: unknown;
  /** Whether these are still the rows of the search before. */
  stale: boolean;
  retry: () => void;
  /** Fetches the pages of these rows. */
  show: (first: number, last: number) => void;
}

/** The workspaces that match a search, page by page as they are needed. */
export function useRows(filter: string): Rows {
  const [wanted, setWanted] = useState({ filter, first: 0, last: 0 });
  const { first, last } = wanted.filter === filter ? wanted : { first: 0, last: 0 };
  // the first page has the count
  const pages = [...new Set([0, ...Array.from({ length: last - first + 1 }, (_, at) => first + at)])];
  const results = useQueries({ queries: pages.map((page) => workspacesQuery(filter, page)) });
  const byPage = new Map(pages.map((page, at) => [page, results[at]?.data?.workspaces]));
  const before = useRef<{ count: number; byPage: typeof byPage }>(undefined);
  const count = results.find(({ data }) => data)?.data?.count;
  const failed = results.find(({ isError }) => isError);
  const now = count === undefined ? undefined : { count, byPage };
  if (now) before.current = now;
  const shown = now ?? (failed ? undefined : before.current);
  const show = useCallback(
    (from: number, to: number) => {
      const next = { filter, first: Math.floor(from / LIST_PAGE), last: Math.floor(to / LIST_PAGE) };
      setWanted((old) =>
        old.filter === next.filter && old.first === next.first && old.last === next.last ? old : next,
      );
    },
    [filter],
  );
  return {
    count: shown?.count,
    at: (index) => shown?.byPage.get(Math.floor(index / LIST_PAGE))?.[index % LIST_PAGE],
    loaded: shown ? [...shown.byPage.values()].flatMap((page) => page ?? []) : [],
    error: shown ? undefined : failed?.error,
    stale: now === undefined && shown !== undefined,
    retry: () => void failed?.refetch(),
    show,
  };
}
