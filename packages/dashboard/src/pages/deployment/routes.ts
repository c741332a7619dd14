import type { AnyRoute } from '@tanstack/react-router';

export const deploymentRoutes = (_parent: AnyRoute): AnyRoute[] => [];
