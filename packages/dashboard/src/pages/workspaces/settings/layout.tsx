import { Outlet } from '@tanstack/react-router';
import { Suspense } from 'react';
import { SettingsLayout } from '../../../layouts/sidebar.tsx';
import { SkeletonLines } from '../../../ui/states.tsx';
import { paths } from '../../../util/paths.ts';
import { useCurrentWorkspace } from '../detail/current.ts';

/** The settings of a workspace, by kind. */
export default function WorkspaceSettingsLayout() {
  const workspace = useCurrentWorkspace();
  if (workspace.latest_build.status === 'deleted') return null;
  return (
    <SettingsLayout
      entries={[
        { to: paths.workspaceSettings(workspace), name: 'General', exact: true },
        { to: paths.workspaceParameters(workspace), name: 'Parameters' },
        { to: paths.workspaceSchedule(workspace), name: 'Schedule' },
      ]}
    >
      <Suspense fallback={<SkeletonLines lines={5} />}>
        <Outlet />
      </Suspense>
    </SettingsLayout>
  );
}
