import type { AnyRoute } from '@tanstack/react-router';
import { page } from '../../util/route.ts';

export const recordRoutes = (parent: AnyRoute): AnyRoute[] => [
  page(parent, '/audit', () => import('./audit.tsx')),
  page(parent, '/connectionlog', () => import('./connections.tsx')),
];
