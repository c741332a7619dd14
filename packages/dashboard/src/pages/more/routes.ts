import type { AnyRoute } from '@tanstack/react-router';

export const moreRoutes = (_parent: AnyRoute): AnyRoute[] => [];
