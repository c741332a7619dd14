import type { AnyRoute } from '@tanstack/react-router';

export const terminalRoutes = (_parent: AnyRoute): AnyRoute[] => [];
