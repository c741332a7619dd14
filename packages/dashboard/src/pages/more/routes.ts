import type { AnyRoute } from '@tanstack/react-router';
import { page } from '../../util/route.ts';

export const moreRoutes = (parent: AnyRoute): AnyRoute[] => [
  page(parent, '/install', () => import('./install.tsx')),
  page(parent, '/icons', () => import('./icons.tsx')),
];

/** Pages that need no session. */
export const openRoutes = (parent: AnyRoute): AnyRoute[] => [
  page(parent, '/api-reference', () => import('./api-reference/page.tsx')),
];
