import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { appearanceQuery } from '../../api/me.ts';
import { useTitle } from '../../ui/page.tsx';

/** The frame of the pages outside of the shell: one box in the middle of the window. */
export function AccessFrame({
  title,
  description,
  children,
}: {
  title: string;
  description?: ReactNode;
  children: ReactNode;
}) {
  useTitle(title);
  const appearance = useQuery(appearanceQuery).data;
  return (
    <main className="flex min-h-dvh flex-col items-center justify-center px-4 py-10">
      <div className="w-full max-w-sm">
        <img
          src={appearance?.logo_url || '/favicon.svg'}
          alt={appearance?.application_name ?? ''}
          className="mx-auto h-10 max-w-48 object-contain"
        />
        {appearance?.application_name && (
          <p className="mt-2 text-center font-medium text-muted">{appearance.application_name}</p>
        )}
        <h1 className="mt-4 text-center font-semibold text-2xl tracking-tight">{title}</h1>
        {description && <div className="mt-1 text-balance text-center text-muted">{description}</div>}
        <div className="mt-6 rounded-xl border border-line bg-surface p-5 shadow-raised sm:p-6">{children}</div>
      </div>
    </main>
  );
}
