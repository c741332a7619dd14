import { type AnyRoute, notFound } from '@tanstack/react-router';
import { queryClient } from '../../api/query.ts';
import { paths } from '../../util/paths.ts';
import { forward, layout, page } from '../../util/route.ts';
import { DEFAULT_FILTER } from './list/filters.ts';
import { workspaceByName, workspacesQuery } from './queries.ts';

/** First parts of addresses that are pages or files of the server, and therefore no owner of `/owner/workspace`. */
const NO_OWNERS = new Set([
  'api',
  'audit',
  'bin',
  'connectionlog',
  'deployment',
  'emojis',
  'external-auth',
  'health',
  'icon',
  'login',
  'organizations',
  'reset-password',
  'settings',
  'starter-templates',
  'tasks',
  'templates',
  'workspaces',
]);

/** Leads from the short address of a workspace, without the `@`, to the one with it. */
function withAt({ owner = '', workspace = '', _splat: rest = '' }: Record<string, string>): string {
  if (owner.startsWith('@') || NO_OWNERS.has(owner)) throw notFound();
  return `${paths.workspace({ owner_name: owner, name: workspace })}${rest ? `/${rest}` : ''}`;
}

const prefetch = ({ owner = '', workspace = '' }: Record<string, string>) =>
  void queryClient.prefetchQuery(workspaceByName(owner, workspace));

export const workspaceRoutes = (parent: AnyRoute): AnyRoute[] => [
  page(
    parent,
    '/workspaces',
    () => import('./list/list-page.tsx'),
    (_params, search) => void queryClient.prefetchQuery(workspacesQuery((search.filter ?? DEFAULT_FILTER).trim())),
  ),
  ...['/templates/$template/workspace', '/templates/$organization/$template/workspace'].map((path) =>
    page(parent, path, () => import('./create/create-workspace.tsx')),
  ),
  layout(
    parent,
    { path: '/@{$owner}/$workspace' },
    () => import('./detail/layout.tsx'),
    (self) => [
      page(self, '/', () => import('./detail/overview-page.tsx'), prefetch),
      page(self, '/builds/$number', () => import('./detail/build-page.tsx'), prefetch),
      layout(
        self,
        { path: '/settings' },
        () => import('./settings/layout.tsx'),
        (settings) => [
          page(settings, '/', () => import('./settings/general-page.tsx'), prefetch),
          page(settings, '/parameters', () => import('./settings/parameters-page.tsx'), prefetch),
          page(settings, '/schedule', () => import('./settings/schedule-page.tsx'), prefetch),
        ],
      ),
    ],
  ),
  forward(parent, '/$owner/$workspace', withAt),
  forward(parent, '/$owner/$workspace/$', withAt),
];
