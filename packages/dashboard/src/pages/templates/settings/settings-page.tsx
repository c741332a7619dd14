import type { Template } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { Lock } from 'lucide-react';
import type { ReactNode } from 'react';
import { templatePermissions } from '../../../api/permissions.ts';
import { SettingsLayout } from '../../../layouts/sidebar.tsx';
import { useTitle } from '../../../ui/page.tsx';
import { EmptyState, SkeletonLines } from '../../../ui/states.tsx';
import { paths } from '../../../util/paths.ts';
import { nameOf } from '../data.ts';

/** A page of a template's settings. */
export function SettingsPage({
  template,
  title,
  children,
}: {
  template: Template;
  title: string;
  children: ReactNode;
}) {
  const may = useQuery(templatePermissions(template.id)).data;
  useTitle(title, 'Settings', nameOf(template));
  return (
    <SettingsLayout
      entries={[
        { to: paths.templateSettings(template), name: 'General', exact: true },
        { to: paths.templateSchedule(template), name: 'Schedule' },
        { to: paths.templateVariables(template), name: 'Variables' },
        { to: paths.templatePermissions(template), name: 'Permissions' },
      ]}
    >
      {may === undefined ? (
        <SkeletonLines lines={8} />
      ) : may.update ? (
        children
      ) : (
        <EmptyState icon={Lock} title="You may not change this template">
          Ask a template administrator of the organization.
        </EmptyState>
      )}
    </SettingsLayout>
  );
}
