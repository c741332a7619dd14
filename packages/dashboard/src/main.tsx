import '@fontsource-variable/inter/wght.css';
import './styles/index.css';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { queryClient } from './api/query.ts';
import { router } from './router.tsx';
import { watchTheme } from './util/theme.ts';

watchTheme();

/** The longest wait for the code and data of the first page, in ms. Then it shows what it has. */
const WAIT_MS = 600;

async function firstPageIsThere(): Promise<void> {
  await router.load();
  await Promise.allSettled(
    queryClient
      .getQueryCache()
      .getAll()
      .map((query) => query.promise),
  );
}

/** A page that appears in parts is rendered once for each, and React leaves 300 ms between two of them. */
async function start(): Promise<void> {
  await Promise.race([firstPageIsThere().catch(() => {}), new Promise((resolve) => setTimeout(resolve, WAIT_MS))]);
  createRoot(document.getElementById('root')!).render(
    <StrictMode>
      <QueryClientProvider client={queryClient}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </StrictMode>,
  );
}

void start();
