import type { AnyRoute } from '@tanstack/react-router';
import { page } from '../../util/route.ts';

export const terminalRoutes = (parent: AnyRoute): AnyRoute[] => [
  page(parent, '/@{$owner}/$workspace/terminal', () => import('./terminal-page.tsx')),
];
