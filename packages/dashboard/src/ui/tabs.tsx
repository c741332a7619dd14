import { useLocation } from '@tanstack/react-router';
import { Tabs as Radix } from 'radix-ui';
import type { ReactNode } from 'react';
import { cx } from './classes.ts';
import { Link } from './link.tsx';
import { ScrollRow } from './scroll-row.tsx';

const BAR = 'border-line border-b';
// over the bar's own line
const ROW = '-mb-px gap-1';
const tabClass = (active: boolean) =>
  cx(
    'flex h-9 shrink-0 items-center gap-2 whitespace-nowrap border-b-2 px-3 font-medium transition-colors',
    active ? 'border-accent text-text' : 'border-transparent text-muted hover:text-text',
  );

/** Tabs that are pages with their own addresses. A tab is active on the pages below its address unless it is `exact`. */
export function LinkTabs({
  label,
  tabs,
}: {
  label: string;
  /**
   * `below` is where the tab is active, too, if that is not below its address. `active` is for tabs that differ in the
   * query alone.
   */
  tabs: readonly { to: string; name: ReactNode; exact?: boolean; below?: string; active?: boolean }[];
}) {
  const { pathname } = useLocation();
  return (
    <nav aria-label={label} className={BAR}>
      <ScrollRow active={`${pathname} ${tabs.length}`} className={ROW}>
        {tabs.map(({ to, name, exact, below = to, ...given }) => {
          const path = decodeURIComponent(below.split('?')[0]!);
          const here = decodeURIComponent(pathname);
          const active = given.active ?? (here === path || (!exact && here.startsWith(`${path}/`)));
          return (
            <Link key={to} to={to} plain aria-current={active ? 'page' : undefined} className={tabClass(active)}>
              {name}
            </Link>
          );
        })}
      </ScrollRow>
    </nav>
  );
}

/** Tabs within a page. */
export function Tabs({
  value,
  onChange,
  tabs,
  label,
}: {
  value: string;
  onChange: (value: string) => void;
  label: string;
  tabs: readonly { value: string; name: ReactNode; content: ReactNode }[];
}) {
  return (
    <Radix.Root value={value} onValueChange={onChange} className="flex min-h-0 flex-col">
      <div className={BAR}>
        <ScrollRow active={`${value} ${tabs.length}`} className={ROW}>
          <Radix.List aria-label={label} className="flex gap-1">
            {tabs.map((tab) => (
              <Radix.Trigger key={tab.value} value={tab.value} className={tabClass(tab.value === value)}>
                {tab.name}
              </Radix.Trigger>
            ))}
          </Radix.List>
        </ScrollRow>
      </div>
      {tabs.map((tab) => (
        <Radix.Content key={tab.value} value={tab.value} className="min-h-0 flex-1 pt-4">
          {tab.content}
        </Radix.Content>
      ))}
    </Radix.Root>
  );
}
