import type { Group } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { Plus, UsersRound } from 'lucide-react';
import { useOrganizationPermissions } from '../../api/permissions.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Avatar } from '../../ui/avatar.tsx';
import { Badge } from '../../ui/badge.tsx';
import { LinkButton } from '../../ui/button.tsx';
import { RowLink } from '../../ui/link.tsx';
import { Section } from '../../ui/page.tsx';
import { EmptyState, QueryView } from '../../ui/states.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { paths } from '../../util/paths.ts';
import { useGo } from '../../util/route.ts';
import { countMembers, groupsQuery, groupTitle, isEveryone } from './group-data.ts';
import { useOrganization } from './use-organization.ts';

export default function GroupsPage() {
  const organization = useOrganization();
  const may = useOrganizationPermissions(organization.id);
  const groups = useQuery(groupsQuery(organization.id));
  const go = useGo();
  const columns: Column<Group>[] = [
    {
      name: 'Name',
      width: 'minmax(0,2fr)',
      cell: (group) => (
        <span className="flex min-w-0 items-center gap-3">
          <Avatar square name={groupTitle(group)} src={group.avatar_url} />
          <span className="min-w-0">
            <span className="flex items-center gap-2">
              <span className="truncate font-medium">
                <RowLink to={paths.group(organization.name, group.name)}>{groupTitle(group)}</RowLink>
              </span>
              {group.source === 'oidc' && <Badge>Synced</Badge>}
            </span>
            {(isEveryone(group) || groupTitle(group) !== group.name) && (
              <span className="block truncate text-muted text-sm">
                {isEveryone(group) ? 'All members of the organization' : group.name}
              </span>
            )}
          </span>
        </span>
      ),
    },
    { name: 'Members', numeric: true, width: '8rem', cell: (group) => <People group={group} /> },
    {
      name: 'Allowance',
      width: '6rem',
      numeric: true,
      wideOnly: true,
      cell: (group) => <span className="text-muted">{group.quota_allowance || '–'}</span>,
    },
  ];
  return (
    <SidebarPage
      title="Groups"
      area={organization.display_name || organization.name}
      description="Groups give their members access to templates, and a budget for workspaces."
      actions={
        may.createGroups && (
          <LinkButton look="primary" icon={Plus} to={paths.newGroup(organization.name)}>
            Create group
          </LinkButton>
        )
      }
    >
      <Section flush>
        <QueryView
          query={groups}
          loading={<Table label="Groups" columns={columns} rows={undefined} rowKey={(group) => group.id} />}
        >
          {(rows) => (
            <Table
              label="Groups"
              columns={columns}
              rows={rows}
              rowKey={(group) => group.id}
              onRowClick={(group) => go(paths.group(organization.name, group.name))}
              empty={
                <EmptyState icon={UsersRound} title="No groups">
                  Ask an administrator of the organization to add you to one.
                </EmptyState>
              }
            />
          )}
        </QueryView>
      </Section>
    </SidebarPage>
  );
}

/** A few of the members, and their number. */
function People({ group }: { group: Group }) {
  const { members, total_member_count: count } = group;
  return (
    <span className="flex min-w-0 items-center gap-2">
      <span className="-space-x-1.5 flex max-sm:hidden" aria-hidden="true">
        {members.slice(0, 3).map((member) => (
          <span key={member.id} className="rounded-full ring-2 ring-surface">
            <Avatar size={22} name={member.username} src={member.avatar_url} />
          </span>
        ))}
      </span>
      <span className="truncate text-muted">
        <span className="sr-only">{countMembers(count)}</span>
        <span aria-hidden="true">{count}</span>
      </span>
    </span>
  );
}
