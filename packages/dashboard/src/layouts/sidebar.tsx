import { useLocation } from '@tanstack/react-router';
import { type ReactNode, useLayoutEffect, useRef } from 'react';
import { cx } from '../ui/classes.ts';
import { Link } from '../ui/link.tsx';
import { PageHeader, useTitle } from '../ui/page.tsx';

export interface SidebarEntry {
  name: ReactNode;
  to: string;
  /** Active only at this very address, not on pages below it. */
  exact?: boolean;
}

export interface SidebarGroup {
  title?: string;
  entries: readonly (SidebarEntry | false | undefined)[];
}

/** Pages with a list of their siblings beside them, or above them on narrow windows. `top` is above the list. */
export function SidebarLayout({
  label,
  top,
  groups,
  children,
}: {
  label: string;
  top?: ReactNode;
  groups: readonly SidebarGroup[];
  children: ReactNode;
}) {
  const { pathname } = useLocation();
  const here = decodeURIComponent(pathname);
  const list = useRef<HTMLElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another page has another entry
  useLayoutEffect(() => {
    // on narrow windows the list scrolls sideways, and the page's own entry may be out of sight
    const entry = list.current?.querySelector<HTMLElement>('[aria-current]');
    if (list.current && entry) list.current.scrollLeft = entry.offsetLeft - list.current.clientWidth / 3;
  }, [pathname]);
  return (
    <div className="mx-auto flex w-full max-w-7xl flex-1 flex-col md:flex-row">
      <div className="shrink-0 border-line px-4 pt-3 sm:px-6 md:w-56 md:border-r md:py-6 md:pr-4">
        <div className="md:sticky md:top-19 md:max-h-[calc(100dvh-6rem)] md:overflow-y-auto">
          {top && <div className="mb-3">{top}</div>}
          <nav
            ref={list}
            aria-label={label}
            className="relative flex gap-1 overflow-x-auto max-md:border-line max-md:border-b md:flex-col"
          >
            {groups.map((group, at) => (
              <div key={at} className={cx('flex gap-1 md:flex-col md:gap-0.5', at > 0 && 'md:mt-4')}>
                {group.title && (
                  <div className="hidden px-2.5 pb-1 font-medium text-faint text-xs md:block">{group.title}</div>
                )}
                {group.entries.map((entry) => {
                  if (!entry) return null;
                  const path = decodeURIComponent(entry.to.split('?')[0]!);
                  const active = here === path || (!entry.exact && here.startsWith(`${path}/`));
                  return (
                    <Link
                      key={entry.to}
                      to={entry.to}
                      plain
                      aria-current={active ? 'page' : undefined}
                      className={cx(
                        'flex h-8 shrink-0 items-center gap-2 whitespace-nowrap px-2.5 transition-colors md:rounded-md',
                        'max-md:border-b-2',
                        active
                          ? 'font-medium text-text max-md:border-accent md:bg-active'
                          : 'text-muted hover:text-text max-md:border-transparent md:hover:bg-hover',
                      )}
                    >
                      {entry.name}
                    </Link>
                  );
                })}
              </div>
            ))}
          </nav>
        </div>
      </div>
      <div className="min-w-0 flex-1">{children}</div>
    </div>
  );
}

/** The frame of a page in a `SidebarLayout`. */
export function SidebarPage({
  title,
  area,
  description,
  actions,
  narrow = false,
  children,
}: {
  title: string;
  /** What the tab's title names after the page's. */
  area?: string | undefined;
  description?: ReactNode;
  actions?: ReactNode;
  /** For forms and texts. */
  narrow?: boolean;
  children: ReactNode;
}) {
  useTitle(title, area);
  return (
    <div className={cx('flex flex-col gap-5 px-4 py-6 sm:px-6', narrow && 'max-w-3xl')}>
      <PageHeader title={title} description={description} actions={actions} />
      {children}
    </div>
  );
}
