import { useSuspenseQuery } from '@tanstack/react-query';
import { Outlet, useLocation } from '@tanstack/react-router';
import { sitePermissions } from '../../api/permissions.ts';
import { NoPermission } from '../../layouts/problems.tsx';
import { SidebarLayout } from '../../layouts/sidebar.tsx';
import { paths } from '../../util/paths.ts';
import { OPTION_PAGES } from './options.ts';

export default function DeploymentLayout() {
  const may = useSuspenseQuery(sitePermissions).data;
  const { pathname } = useLocation();
  const permitted = pathname.startsWith(paths.users())
    ? may.readUsers
    : pathname.startsWith(paths.deployment('idp-org-sync'))
      ? may.updateIdpSync
      : pathname.startsWith(paths.oauth2Apps())
        ? may.createOAuth2Apps
        : pathname.startsWith(paths.workspaceProxies())
          ? may.readProxies
          : may.readDeploymentConfig;
  if (!permitted) return <NoPermission />;
  return (
    <SidebarLayout
      label="Deployment"
      groups={[
        {
          entries: [
            may.readDeploymentConfig && { name: 'Overview', to: paths.deployment() },
            may.readUsers && { name: 'Users', to: paths.users() },
            may.updateIdpSync && { name: 'Organization sync', to: paths.deployment('idp-org-sync') },
          ],
        },
        {
          title: 'Options in force',
          entries: may.readDeploymentConfig
            ? OPTION_PAGES.map(({ path, name }) => ({ name, to: paths.deployment(path) }))
            : [],
        },
        {
          title: 'Server',
          entries: [
            may.updateDeploymentConfig && { name: 'Appearance', to: paths.deployment('appearance') },
            may.createOAuth2Apps && { name: 'OAuth2 apps', to: paths.oauth2Apps() },
            may.readProxies && { name: 'Workspace proxies', to: paths.workspaceProxies() },
            may.readDeploymentConfig && { name: 'Licenses', to: paths.deployment('licenses') },
            may.readHealth && { name: 'Health', to: paths.health() },
          ],
        },
      ]}
    >
      <Outlet />
    </SidebarLayout>
  );
}
