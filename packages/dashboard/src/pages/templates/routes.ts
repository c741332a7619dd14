import type { AnyRoute } from '@tanstack/react-router';

export const templateRoutes = (_parent: AnyRoute): AnyRoute[] => [];
