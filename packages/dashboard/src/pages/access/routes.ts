import type { AnyRoute } from '@tanstack/react-router';

export const accessRoutes = (_parent: AnyRoute): AnyRoute[] => [];
