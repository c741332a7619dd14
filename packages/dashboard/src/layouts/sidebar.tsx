import { useLocation } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { cx } from '../ui/classes.ts';
import { Link } from '../ui/link.tsx';
import { PageHeader, useTitle } from '../ui/page.tsx';
import { ScrollRow } from '../ui/scroll-row.tsx';

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

/**
 * The list of the pages of one level, next to them. On narrow windows it is a row above them, which scrolls. Pages of the
 * level above it have tabs.
 */
function SideList({ label, groups }: { label: string; groups: readonly SidebarGroup[] }) {
  const { pathname } = useLocation();
  const here = decodeURIComponent(pathname).replace(/(.)\/$/, '$1');
  // some depend on permissions, which may come later
  const count = groups.flatMap(({ entries }) => entries.filter(Boolean)).length;
  return (
    <nav aria-label={label}>
      <ScrollRow active={`${pathname} ${count}`} className="gap-1 md:flex-col md:overflow-visible">
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
                    'flex h-8 shrink-0 items-center gap-2 whitespace-nowrap rounded-md px-2.5 transition-colors',
                    active ? 'bg-active font-medium text-text' : 'text-muted hover:bg-hover hover:text-text',
                  )}
                >
                  {entry.name}
                </Link>
              );
            })}
          </div>
        ))}
      </ScrollRow>
    </nav>
  );
}

/** Pages with a list of their siblings next to them, or above them on narrow windows. `top` is above the list. */
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
  return (
    <div className="mx-auto flex w-full max-w-7xl flex-1 flex-col md:flex-row">
      <div className="shrink-0 border-line px-4 pt-3 sm:px-6 md:w-56 md:border-r md:py-6 md:pr-4">
        <div className="md:sticky md:top-19 md:max-h-[calc(100dvh-6rem)] md:overflow-y-auto">
          {top && <div className="mb-3">{top}</div>}
          <SideList label={label} groups={groups} />
        </div>
      </div>
      <div className="min-w-0 flex-1">{children}</div>
    </div>
  );
}

/** The same below the tabs of an object: its settings. */
export function SettingsLayout({ entries, children }: { entries: readonly SidebarEntry[]; children: ReactNode }) {
  return (
    <div className="grid grid-cols-1 items-start gap-5 md:grid-cols-[11rem_minmax(0,48rem)]">
      <SideList label="Settings" groups={[{ entries }]} />
      <div className="flex min-w-0 flex-col gap-5">{children}</div>
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
