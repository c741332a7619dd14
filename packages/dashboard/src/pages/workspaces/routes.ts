import type { AnyRoute } from '@tanstack/react-router';

export const workspaceRoutes = (_parent: AnyRoute): AnyRoute[] => [];
