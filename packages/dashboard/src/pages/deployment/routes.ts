import type { AnyRoute } from '@tanstack/react-router';
import { paths } from '../../util/paths.ts';
import { forward, layout, page } from '../../util/route.ts';

export const deploymentRoutes = (parent: AnyRoute): AnyRoute[] => [
  layout(
    parent,
    { path: '/deployment' },
    () => import('./layout.tsx'),
    (self) => [
      forward(self, '/', () => paths.deployment()),
      page(self, '/overview', () => import('./overview.tsx')),
      page(self, '/users', () => import('./users.tsx')),
      page(self, '/users/create', () => import('./new-user.tsx')),
      page(self, '/idp-org-sync', () => import('../idp-sync/organization-sync.tsx')),
      page(self, '/oauth2-provider/apps', () => import('./oauth2-apps.tsx')),
      page(self, '/oauth2-provider/apps/$app', () => import('./oauth2-app.tsx')),
      page(self, '/workspace-proxies', () => import('./proxies.tsx')),
      page(self, '/appearance', () => import('./appearance.tsx')),
      page(self, '/notifications', () => import('./notifications.tsx')),
      page(self, '/licenses', () => import('./licenses.tsx')),
      page(self, '/premium', () => import('./licenses.tsx')),
      // security, network, …: the pages of OPTION_PAGES
      page(self, '/$options', () => import('./options-page.tsx')),
    ],
  ),
  layout(
    parent,
    { path: '/health' },
    () => import('./health-layout.tsx'),
    (self) => [
      forward(self, '/', () => paths.health()),
      forward(self, '/derp/regions/$region', () => paths.health('derp')),
      page(self, '/$section', () => import('./health.tsx')),
    ],
  ),
];
