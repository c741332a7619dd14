import type { AnyRoute } from '@tanstack/react-router';
import { paths } from '../../util/paths.ts';
import { forward, layout, page } from '../../util/route.ts';

export const settingsRoutes = (parent: AnyRoute): AnyRoute[] => [
  layout(
    parent,
    { path: '/settings' },
    () => import('./layout.tsx'),
    (self) => [
      forward(self, '/', () => paths.settings()),
      page(self, '/account', () => import('./account.tsx')),
      page(self, '/appearance', () => import('./appearance.tsx')),
      page(self, '/schedule', () => import('./schedule.tsx')),
      page(self, '/security', () => import('./security.tsx')),
      page(self, '/ssh-keys', () => import('./ssh-keys.tsx')),
      page(self, '/notifications', () => import('./notifications.tsx')),
      page(self, '/external-auth', () => import('./external-auth.tsx')),
      page(self, '/secrets', () => import('./secrets.tsx')),
      // upstream's address
      page(self, '/oauth2-provider', () => import('./oauth2-apps.tsx')),
      page(self, '/tokens', () => import('./tokens.tsx')),
      page(self, '/tokens/new', () => import('./new-token.tsx')),
    ],
  ),
];
