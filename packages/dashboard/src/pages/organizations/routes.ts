import type { AnyRoute } from '@tanstack/react-router';

export const organizationRoutes = (_parent: AnyRoute): AnyRoute[] => [];
