import type { AssignableRoles } from '@ropewalk/contract';
import { ownValue } from '@ropewalk/kit/own-value';
import { useQuery } from '@tanstack/react-query';
import { Plus, ShieldCheck } from 'lucide-react';
import { useOrganizationPermissions } from '../../api/permissions.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { LinkButton } from '../../ui/button.tsx';
import { RowLink } from '../../ui/link.tsx';
import { Section } from '../../ui/page.tsx';
import { EmptyState, QueryView } from '../../ui/states.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { paths } from '../../util/paths.ts';
import { useGo } from '../../util/route.ts';
import { summaryOf } from './role-grants.ts';
import { ROLE_HELP } from './roles.tsx';
import { rolesQuery } from './roles-query.ts';
import { useOrganization } from './use-organization.ts';

export default function RolesPage() {
  const organization = useOrganization();
  const may = useOrganizationPermissions(organization.id);
  const roles = useQuery(rolesQuery(organization.id));
  const go = useGo();
  const columns: Column<AssignableRoles>[] = [
    {
      name: 'Name',
      width: 'minmax(0,2fr)',
      cell: (role) => (
        <span className="min-w-0">
          <span className="block truncate font-medium">
            <RowLink to={paths.role(organization.name, role.name)}>{role.display_name || role.name}</RowLink>
          </span>
          <span className="block text-muted text-sm">{ownValue(ROLE_HELP, role.name) ?? role.name}</span>
        </span>
      ),
    },
    {
      name: 'Grants',
      width: '9rem',
      wideOnly: true,
      cell: (role) => <span className="text-muted">{summaryOf(role)}</span>,
    },
  ];
  const custom = roles.data?.filter((role) => !role.built_in);
  const create = may.createRoles && (
    <LinkButton look="primary" icon={Plus} to={paths.newRole(organization.name)}>
      Create role
    </LinkButton>
  );
  const table = (label: string, rows: AssignableRoles[] | undefined) => (
    <Table
      label={label}
      columns={columns}
      rows={rows}
      rowKey={({ name }) => name}
      onRowClick={({ name }) => go(paths.role(organization.name, name))}
      header={false}
      empty={
        <EmptyState icon={ShieldCheck} title="No custom roles" action={create}>
          Create one when the built-in roles grant too much or too little.
        </EmptyState>
      }
    />
  );
  return (
    <SidebarPage
      title="Roles"
      area={organization.display_name || organization.name}
      description="What members may do beyond their own workspaces. Assign roles on the page Members."
      actions={custom?.length !== 0 && create}
    >
      <Section title="Custom roles" flush>
        <QueryView query={roles} loading={table('Custom roles', undefined)}>
          {() => table('Custom roles', custom)}
        </QueryView>
      </Section>
      <Section title="Built-in roles" flush>
        <QueryView query={roles} loading={table('Built-in roles', undefined)}>
          {(all) =>
            table(
              'Built-in roles',
              all.filter((role) => role.built_in),
            )
          }
        </QueryView>
      </Section>
    </SidebarPage>
  );
}
