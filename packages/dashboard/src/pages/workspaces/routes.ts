import type { AnyRoute } from '@tanstack/react-router';
import { queryClient } from '../../api/query.ts';
import { page } from '../../util/route.ts';
import { DEFAULT_FILTER } from './list/filters.ts';
import { workspacesQuery } from './queries.ts';

export const workspaceRoutes = (parent: AnyRoute): AnyRoute[] => [
  page(
    parent,
    '/workspaces',
    () => import('./list/list-page.tsx'),
    (_params, search) => void queryClient.prefetchQuery(workspacesQuery((search.filter ?? DEFAULT_FILTER).trim())),
  ),
];
