import type { Organization } from '@ropewalk/contract';
import { useSuspenseQuery } from '@tanstack/react-query';
import { Outlet, useLocation } from '@tanstack/react-router';
import { Building2, ChevronsUpDown, Plus } from 'lucide-react';
import { useEffect } from 'react';
import { organizationsQuery } from '../../api/me.ts';
import { useOrganizationPermissions, useSitePermissions } from '../../api/permissions.ts';
import { SidebarLayout } from '../../layouts/sidebar.tsx';
import { Avatar } from '../../ui/avatar.tsx';
import { LinkButton } from '../../ui/button.tsx';
import { Menu, MenuItem, MenuSeparator } from '../../ui/menu.tsx';
import { EmptyState } from '../../ui/states.tsx';
import { paths } from '../../util/paths.ts';
import { useGo, useRouteParams } from '../../util/route.ts';
import { useNamedOrganization } from './use-organization.ts';

export default function OrganizationLayout() {
  const organization = useNamedOrganization();
  const may = useOrganizationPermissions(organization?.id ?? '');
  const { organization: named } = useRouteParams<'organization'>();
  const { pathname, searchStr } = useLocation();
  const go = useGo();
  const canonical = organization && `${paths.organization(organization.name)}${rest(pathname)}${searchStr}`;
  const other = organization !== undefined && named !== organization.name;
  useEffect(() => {
    // the address may have its id, or the word default
    if (other) go(canonical!, { replace: true });
  }, [other, canonical, go]);
  if (!organization) {
    return (
      <EmptyState
        isPage
        icon={Building2}
        title="Organization not found"
        action={<LinkButton to="/organizations">Your organizations</LinkButton>}
      >
        It may have been renamed or deleted, or you may not see it.
      </EmptyState>
    );
  }
  const { name } = organization;
  return (
    <SidebarLayout
      label="Organization"
      top={<Switcher current={organization} />}
      groups={[
        {
          entries: [
            { name: 'Members', to: paths.organization(name), exact: true },
            may.readGroups && { name: 'Groups', to: paths.groups(name) },
            may.assignRoles && { name: 'Roles', to: paths.roles(name) },
            may.updateIdpSync && { name: 'Identity sync', to: paths.idpSync(name) },
            may.updateOrganization && { name: 'Settings', to: paths.organizationSettings(name) },
          ],
        },
        {
          title: 'Provisioning',
          entries: [
            may.readJobs && { name: 'Provisioners', to: paths.provisioners(name) },
            may.readJobs && { name: 'Jobs', to: paths.provisionerJobs(name) },
            may.createProvisionerKeys && { name: 'Keys', to: paths.provisionerKeys(name) },
          ],
        },
      ]}
    >
      {/* forms and filters belong to one organization */}
      <Outlet key={organization.id} />
    </SidebarLayout>
  );
}

/** What follows the organization in the address: the same page of another one has it too. */
const rest = (pathname: string): string => {
  const page = pathname.split('/').slice(3).join('/');
  return page && `/${page}`;
};

function Switcher({ current }: { current: Organization }) {
  const organizations = useSuspenseQuery(organizationsQuery).data;
  const may = useSitePermissions();
  const { pathname } = useLocation();
  if (organizations.length < 2 && !may.createOrganization) return <OrganizationName organization={current} />;
  return (
    <Menu
      align="start"
      trigger={
        <button
          type="button"
          title="Switch the organization"
          className="flex w-full items-center gap-2 rounded-md border border-line-strong bg-raised px-2 py-1.5 text-left hover:bg-hover"
        >
          <OrganizationName organization={current} />
          <ChevronsUpDown size={14} aria-hidden="true" className="ml-auto shrink-0 text-muted" />
        </button>
      }
    >
      {organizations.map((each) => (
        <MenuItem key={each.id} to={`${paths.organization(each.name)}${rest(pathname)}`}>
          <OrganizationName organization={each} />
        </MenuItem>
      ))}
      {may.createOrganization && (
        <>
          <MenuSeparator />
          <MenuItem icon={Plus} to={paths.newOrganization()}>
            Create an organization
          </MenuItem>
        </>
      )}
    </Menu>
  );
}

function OrganizationName({ organization }: { organization: Organization }) {
  const name = organization.display_name || organization.name;
  return (
    <span className="flex min-w-0 items-center gap-2">
      <Avatar square size={22} name={name} src={organization.icon} />
      <span className="truncate font-medium">{name}</span>
    </span>
  );
}
