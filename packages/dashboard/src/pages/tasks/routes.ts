import type { AnyRoute } from '@tanstack/react-router';
import { queryClient } from '../../api/query.ts';
import { page } from '../../util/route.ts';
import { workspaceByName } from '../workspaces/queries.ts';

export const taskRoutes = (parent: AnyRoute): AnyRoute[] => [
  page(parent, '/tasks', () => import('./list-page.tsx')),
  page(
    parent,
    '/tasks/$owner/$workspace',
    () => import('./task-page.tsx'),
    ({ owner = '', workspace = '' }) => void queryClient.prefetchQuery(workspaceByName(owner, workspace)),
  ),
];
