import type { ChangeKind } from '@ropewalk/contract';
import { MutationCache, QueryClient, queryOptions, type UseMutationOptions, useMutation } from '@tanstack/react-query';
import { toast } from '../ui/toast.tsx';
import { type CallInput, call, type RouteAnswer, type RouteKey } from './client.ts';
import { errorText, isUnreachable } from './errors.ts';

/** A query is fetched again when one of these objects changes. Without an id: any object of the kind. */
export interface Watch {
  kind: ChangeKind;
  id?: string | undefined;
}

declare module '@tanstack/react-query' {
  interface Register {
    queryMeta: { watches?: readonly Watch[] };
    mutationMeta: { ownError?: boolean };
  }
}

type GetKey = Extract<RouteKey, `GET ${string}`>;
type InputOf<K extends RouteKey> =
  Record<never, never> extends CallInput<K> ? [input?: CallInput<K>] : [input: CallInput<K>];

/**
 * The query of a GET route. It is fetched again when one of the objects in `watches` changes. An empty `watches` means that
 * a page fetches it again when it opens and the answer is older than `staleTime`.
 */
export function apiQuery<K extends GetKey>(route: K, watches: readonly Watch[], ...input: InputOf<K>) {
  return queryOptions({
    queryKey: [route, input[0] ?? null] as const,
    queryFn: () => call(route, ...(input as never)) as Promise<RouteAnswer<K>>,
    meta: { watches },
  });
}

/**
 * A mutation that runs `change`. The event stream refreshes the queries that watch the changed objects. `refetch` names the
 * routes of other queries to fetch again. Errors appear as a toast. With `ownError`, the page shows them instead.
 */
export function useChange<Input = void, Answer = unknown>(
  change: (input: Input) => Promise<Answer>,
  options: Omit<UseMutationOptions<Answer, unknown, Input>, 'mutationFn'> & {
    refetch?: readonly RouteKey[];
    ownError?: boolean;
  } = {},
) {
  const { refetch = [], ownError = false, onSuccess, ...rest } = options;
  return useMutation<Answer, unknown, Input>({
    ...rest,
    mutationFn: change,
    meta: { ownError },
    async onSuccess(...args) {
      await Promise.all(refetch.map((route) => queryClient.invalidateQueries({ queryKey: [route] })));
      await onSuccess?.(...args);
    },
  });
}

/** Makes a change whose state the page does not show. A long list would have a `useChange` for each row. */
export function makeChange(change: () => Promise<unknown>): void {
  // the error is shown by the cache
  void queryClient
    .getMutationCache()
    .build(queryClient, { mutationFn: change })
    .execute(undefined)
    .catch(() => {});
}

/** The cache of all answers. */
export const queryClient = new QueryClient({
  mutationCache: new MutationCache({
    onError(err, _input, _result, mutation) {
      if (mutation.meta?.ownError) return;
      toast({ tone: 'bad', ...errorText(err) });
    },
  }),
  defaultOptions: {
    queries: {
      // what is watched is refetched by events, and what is not is read again when a page opens
      staleTime: 30_000,
      gcTime: 10 * 60_000,
      // the event stream knows when the connection is back
      refetchOnWindowFocus: false,
      refetchOnReconnect: false,
      retry: (count, err) => isUnreachable(err) && count < 5,
      retryDelay: (count) => Math.min(500 * 2 ** count, 5_000),
      networkMode: 'always',
    },
    mutations: { networkMode: 'always' },
  },
});
