import type { Template } from '@platform/contract';
import { useQuery } from '@tanstack/react-query';
import { useLocation } from '@tanstack/react-router';
import { Lock } from 'lucide-react';
import type { ReactNode } from 'react';
import { templatePermissions } from '../../../api/permissions.ts';
import { cx } from '../../../ui/classes.ts';
import { Link } from '../../../ui/link.tsx';
import { useTitle } from '../../../ui/page.tsx';
import { EmptyState, SkeletonLines } from '../../../ui/states.tsx';
import { paths } from '../../../util/paths.ts';
import { nameOf } from '../data.ts';

/** The pages of a template's settings, with their navigation. */
export function SettingsLayout({
  template,
  title,
  children,
}: {
  template: Template;
  title: string;
  children: ReactNode;
}) {
  const may = useQuery(templatePermissions(template.id)).data;
  const { pathname } = useLocation();
  useTitle(title, 'Settings', nameOf(template));
  const pages = [
    { to: paths.templateSettings(template), name: 'General' },
    { to: paths.templateSchedule(template), name: 'Schedule' },
    { to: paths.templateVariables(template), name: 'Variables' },
    { to: paths.templatePermissions(template), name: 'Permissions' },
  ];
  return (
    <div className="grid items-start gap-5 md:grid-cols-[11rem_minmax(0,42rem)]">
      <nav aria-label="Settings" className="flex gap-1 overflow-x-auto md:flex-col">
        {pages.map(({ to, name }) => {
          const active = decodeURIComponent(pathname).replace(/\/$/, '') === decodeURIComponent(to);
          return (
            <Link
              key={to}
              to={to}
              plain
              aria-current={active ? 'page' : undefined}
              className={cx(
                'rounded-md px-3 py-1.5 font-medium',
                active ? 'bg-active text-text' : 'text-muted hover:bg-hover hover:text-text',
              )}
            >
              {name}
            </Link>
          );
        })}
      </nav>
      <div className="flex min-w-0 flex-col gap-5">
        {may === undefined ? (
          <SkeletonLines lines={8} />
        ) : may.update ? (
          children
        ) : (
          <EmptyState icon={Lock} title="You may not change this template">
            Ask a template administrator of the organization.
          </EmptyState>
        )}
      </div>
    </div>
  );
}
