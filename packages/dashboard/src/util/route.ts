import {
  type AnyRoute,
  createRoute,
  lazyRouteComponent,
  redirect,
  useNavigate,
  useParams,
  useSearch,
} from '@tanstack/react-router';
import { type ComponentType, useCallback } from 'react';

type Params = Record<string, string>;

/**
 * A page at a path below `parent`. Its code loads when it is first needed, or when a link to it is hovered. `prefetch`
 * starts the queries of the page at the same moment.
 */
export function page(
  parent: AnyRoute,
  path: string,
  load: () => Promise<{ default: ComponentType }>,
  prefetch?: (params: Params, search: Params) => void,
): AnyRoute {
  return createRoute({
    getParentRoute: () => parent,
    path,
    component: lazyRouteComponent(load),
    ...(prefetch
      ? {
          loaderDeps: ({ search }: { search: Params }) => search,
          loader: ({ params, deps }: { params: Params; deps: Params }) => prefetch(params, deps),
        }
      : {}),
  } as never) as unknown as AnyRoute;
}

/** A layout around pages: with its own path segment, or without (`id` distinguishes it then). */
export function layout(
  parent: AnyRoute,
  at: { path: string } | { id: string },
  load: () => Promise<{ default: ComponentType }>,
  children: (self: AnyRoute) => AnyRoute[],
): AnyRoute {
  const self = createRoute({
    getParentRoute: () => parent,
    ...at,
    component: lazyRouteComponent(load),
  } as never) as unknown as AnyRoute;
  return self.addChildren(children(self)) as AnyRoute;
}

/** An old or short address that leads to another one. */
export function forward(parent: AnyRoute, path: string, to: (params: Params, search: Params) => string): AnyRoute {
  return createRoute({
    getParentRoute: () => parent,
    path,
    beforeLoad: ({ params, search }: { params: Params; search: Params }) => {
      throw redirect({ href: to(params, search), replace: true });
    },
  } as never) as unknown as AnyRoute;
}

/** The page's path parameters. The names are those of its path in the area's `routes.ts`. */
export function useRouteParams<N extends string>(): Record<N, string> {
  return useParams({ strict: false } as never) as Record<N, string>;
}

/**
 * The address's query, and a function that changes some of its values without a new history entry. Empty values leave
 * the address.
 */
export function useSearchParams(): [Params, (changes: Record<string, string | undefined>) => void] {
  const search = useSearch({ strict: false } as never) as Params;
  const navigate = useNavigate();
  return [
    search,
    (changes) =>
      void navigate({
        to: '.',
        // of the moment: a caller may have waited for an answer since its last render
        search: ((now: Params) =>
          Object.fromEntries(Object.entries({ ...now, ...changes }).filter(([, value]) => value))) as never,
        replace: true,
        resetScroll: false,
      } as never),
  ];
}

/** Opens an address from `paths`. */
export function useGo(): (to: string, options?: { replace?: boolean }) => void {
  const navigate = useNavigate();
  return useCallback((to, options) => void navigate({ href: to, ...options } as never), [navigate]);
}
