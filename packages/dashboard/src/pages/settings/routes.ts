import type { AnyRoute } from '@tanstack/react-router';

export const settingsRoutes = (_parent: AnyRoute): AnyRoute[] => [];
