import type { AnyRoute } from '@tanstack/react-router';
import { layout, page } from '../../util/route.ts';

export const organizationRoutes = (parent: AnyRoute): AnyRoute[] => [
  page(parent, '/organizations', () => import('./first.tsx')),
  page(parent, '/organizations/new', () => import('./new.tsx')),
  layout(
    parent,
    { path: '/organizations/$organization' },
    () => import('./layout.tsx'),
    (self) => [
      page(self, '/', () => import('./members.tsx')),
      page(self, '/provisioners', () => import('./provisioners.tsx')),
      page(self, '/provisioner-jobs', () => import('./jobs.tsx')),
      page(self, '/provisioner-keys', () => import('./keys.tsx')),
      page(self, '/settings', () => import('./settings.tsx')),
    ],
  ),
];
