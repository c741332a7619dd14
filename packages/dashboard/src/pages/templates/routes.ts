import type { AnyRoute } from '@tanstack/react-router';
import { queryClient } from '../../api/query.ts';
import { paths } from '../../util/paths.ts';
import { forward, layout, page } from '../../util/route.ts';
import { basesQuery } from './builder/queries.ts';
import { examplesQuery, templateQuery } from './data.ts';

const LONG = '/templates/$organization/$template';
const names = ({ organization, template }: Record<string, string>) => ({
  organization_name: organization!,
  name: template!,
});

/** Below the short address without an organization. */
const SHORT_PAGES = [
  '',
  '/docs',
  '/files',
  '/resources',
  '/versions',
  '/versions/$version',
  '/versions/$version/edit',
  '/prebuilds',
  '/embed',
  '/insights',
  '/settings',
  '/settings/variables',
  '/settings/schedule',
  '/settings/permissions',
];

const prefetchTemplate = ({ organization, template }: Record<string, string>) =>
  void queryClient.prefetchQuery(templateQuery(organization!, template!));

export const templateRoutes = (parent: AnyRoute): AnyRoute[] => [
  page(parent, '/templates', () => import('./list.tsx')),
  page(parent, '/templates/new', () => import('./create/create.tsx')),
  page(
    parent,
    '/templates/new/builder',
    () => import('./builder/builder.tsx'),
    () => void queryClient.prefetchQuery(basesQuery),
  ),
  page(
    parent,
    '/starter-templates',
    () => import('./create/starters.tsx'),
    () => void queryClient.prefetchQuery(examplesQuery),
  ),
  page(parent, '/starter-templates/$id', () => import('./create/starter.tsx')),
  page(parent, `${LONG}/versions/$version/edit`, () => import('./editor/editor.tsx'), prefetchTemplate),
  layout(
    parent,
    { path: LONG },
    () => import('./template/layout.tsx'),
    (self) => [
      forward(self, '/', (params) => paths.templateDocs(names(params))),
      page(self, '/docs', () => import('./template/docs.tsx'), prefetchTemplate),
      page(self, '/files', () => import('./template/files.tsx'), prefetchTemplate),
      page(self, '/resources', () => import('./template/resources.tsx'), prefetchTemplate),
      page(self, '/versions', () => import('./template/versions.tsx'), prefetchTemplate),
      page(self, '/versions/$version', () => import('./template/version.tsx'), prefetchTemplate),
      page(self, '/prebuilds', () => import('./template/prebuilds.tsx'), prefetchTemplate),
      page(self, '/embed', () => import('./template/embed.tsx'), prefetchTemplate),
      page(self, '/insights', () => import('./template/insights.tsx'), prefetchTemplate),
      page(self, '/settings', () => import('./settings/general.tsx'), prefetchTemplate),
      page(self, '/settings/variables', () => import('./settings/variables.tsx'), prefetchTemplate),
      page(self, '/settings/schedule', () => import('./settings/schedule.tsx'), prefetchTemplate),
      page(self, '/settings/permissions', () => import('./settings/permissions.tsx'), prefetchTemplate),
    ],
  ),
  ...SHORT_PAGES.map((rest) => page(parent, `/templates/$template${rest}`, () => import('./short-address.tsx'))),
];
