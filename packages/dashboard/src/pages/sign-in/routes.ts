import type { AnyRoute } from '@tanstack/react-router';
import { page } from '../../util/route.ts';

export const signInRoutes = (parent: AnyRoute): AnyRoute[] => [
  page(parent, '/setup', () => import('./setup.tsx')),
  page(parent, '/login', () => import('./login.tsx')),
  page(parent, '/login/device', () => import('./device.tsx')),
  page(parent, '/reset-password', () => import('./reset-password.tsx')),
  page(parent, '/reset-password/change', () => import('./change-password.tsx')),
  page(parent, '/external-auth/$provider', () => import('./external-auth.tsx')),
  page(parent, '/cli-auth', () => import('./cli-auth.tsx')),
];
