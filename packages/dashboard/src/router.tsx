import { createRouter } from '@tanstack/react-router';
import { CrashPage, NotFoundPage } from './layouts/problems.tsx';
import { routeTree } from './routes.tsx';

export const router = createRouter({
  routeTree,
  // the data's own cache decides what is stale
  defaultPreloadStaleTime: 0,
  defaultNotFoundComponent: NotFoundPage,
  defaultErrorComponent: CrashPage,
  scrollRestoration: true,
  // addresses are upstream's: plain texts, so `?name=007` stays a text
  parseSearch: (search) => Object.fromEntries(new URLSearchParams(search)),
  stringifySearch: (search) => {
    const pairs = Object.entries(search as Record<string, unknown>).filter(([, value]) => value !== undefined);
    const text = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString();
    return text ? `?${text}` : '';
  },
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
