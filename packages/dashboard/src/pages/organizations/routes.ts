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
      page(self, '/groups', () => import('./groups.tsx')),
      page(self, '/groups/create', () => import('./new-group.tsx')),
      page(self, '/groups/$group', () => import('./group.tsx')),
      page(self, '/groups/$group/settings', () => import('./group-settings.tsx')),
      page(self, '/roles', () => import('./role-list.tsx')),
      page(self, '/roles/create', () => import('./role.tsx')),
      page(self, '/roles/$role', () => import('./role.tsx')),
      page(self, '/provisioners', () => import('./provisioners.tsx')),
      page(self, '/provisioner-jobs', () => import('./jobs.tsx')),
      page(self, '/provisioner-keys', () => import('./keys.tsx')),
      page(self, '/idp-sync', () => import('../idp-sync/group-and-role-sync.tsx')),
      page(self, '/settings', () => import('./settings.tsx')),
    ],
  ),
];
