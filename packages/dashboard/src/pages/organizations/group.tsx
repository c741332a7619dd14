import type { Group, OrganizationMemberWithUserData, ReducedUser } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { SearchX, Settings, UserMinus, UserPlus, UsersRound } from 'lucide-react';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { useOrganizationPermissions } from '../../api/permissions.ts';
import { queryClient, useChange } from '../../api/query.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Badge } from '../../ui/badge.tsx';
import { Button, IconButton, LinkButton } from '../../ui/button.tsx';
import { Link } from '../../ui/link.tsx';
import { Section } from '../../ui/page.tsx';
import { PickDialog } from '../../ui/pick-dialog.tsx';
import { SearchInput } from '../../ui/search-input.tsx';
import { EmptyState, QueryView } from '../../ui/states.tsx';
import { actionsColumn, type Column, Table } from '../../ui/table.tsx';
import { paths } from '../../util/paths.ts';
import { useRouteParams } from '../../util/route.ts';
import { formatRelative, isZeroTime } from '../../util/time.ts';
import { countMembers, groupNotFound, groupQuery, groupTitle, isEveryone } from './group-data.ts';
import { membersQuery } from './members-query.ts';
import { Person } from './person.tsx';
import { useOrganization } from './use-organization.ts';

export default function GroupPage() {
  const organization = useOrganization();
  const { group: name } = useRouteParams<'group'>();
  const group = useQuery(groupQuery(organization.id, name));
  const may = useOrganizationPermissions(organization.id);
  const [search, setSearch] = useState('');
  const [adding, setAdding] = useState(false);
  const change = useChange(
    (body: { add_users?: string[]; remove_users?: string[] }) =>
      call('PATCH /groups/{group}', { params: { group: group.data!.id }, body }),
    {
      refetch: ['GET /organizations/{organization}/groups'],
      onSuccess: (answer) => queryClient.setQueryData(groupQuery(organization.id, name).queryKey, answer),
    },
  );
  const mayChange = may.updateGroups && group.data && !isEveryone(group.data);
  const columns: Column<ReducedUser>[] = [
    { name: 'Name', width: 'minmax(0,2fr)', cell: (member) => <Person person={member} /> },
    {
      name: 'Status',
      width: '7rem',
      wideOnly: true,
      cell: ({ status }) =>
        status === 'active' ? <span className="text-muted">Active</span> : <Badge>{status}</Badge>,
    },
    {
      name: 'Last seen',
      width: '9rem',
      wideOnly: true,
      cell: ({ last_seen_at: seen }) => (
        <span className="text-muted">{isZeroTime(seen) ? 'Never' : formatRelative(seen!)}</span>
      ),
    },
  ];
  if (mayChange) {
    columns.push(
      actionsColumn((member) => (
        <IconButton
          icon={UserMinus}
          size="sm"
          label={`Remove ${member.username}`}
          pending={change.isPending && change.variables.remove_users?.[0] === member.id}
          onClick={() => change.mutate({ remove_users: [member.id] })}
        />
      )),
    );
  }
  const add = mayChange && (
    <Button look="primary" icon={UserPlus} onClick={() => setAdding(true)}>
      Add members
    </Button>
  );
  return (
    <QueryView query={group} isPage notFound={groupNotFound(organization.name)}>
      {(data) => (
        <SidebarPage
          title={groupTitle(data)}
          area={`Groups · ${organization.display_name || organization.name}`}
          description={<Summary group={data} organization={organization.name} />}
          actions={
            <>
              {may.updateGroups && (
                <LinkButton icon={Settings} to={paths.groupSettings(organization.name, data.name)}>
                  Settings
                </LinkButton>
              )}
              {data.total_member_count > 0 && add}
            </>
          }
        >
          {data.members.length > 0 && (
            <div className="flex">
              <SearchInput label="Find a member" placeholder="Find a member…" value={search} onChange={setSearch} />
            </div>
          )}
          <Section flush>
            <Table
              label="Members"
              columns={columns}
              rows={data.members.filter((member) => matches(member, search))}
              rowKey={({ id }) => id}
              empty={
                data.members.length > 0 ? (
                  <EmptyState
                    icon={SearchX}
                    title="No member matches"
                    action={<Button onClick={() => setSearch('')}>Show all members</Button>}
                  />
                ) : data.total_member_count > 0 ? (
                  <EmptyState icon={UsersRound} title="You may not see the members of this group" />
                ) : (
                  <EmptyState icon={UsersRound} title="No members" action={add}>
                    Members of the group get its permissions on templates and its allowance.
                  </EmptyState>
                )
              }
            />
          </Section>
          {adding && (
            <AddMembers
              organization={organization.id}
              group={data}
              onAdd={(id) => change.mutateAsync({ add_users: [id] })}
              onClose={() => setAdding(false)}
            />
          )}
        </SidebarPage>
      )}
    </QueryView>
  );
}

const matches = (person: { username: string; name?: string | undefined; email: string }, search: string) =>
  [person.username, person.name, person.email].some((text) =>
    text?.toLowerCase().includes(search.trim().toLowerCase()),
  );

function Summary({ group, organization }: { group: Group; organization: string }) {
  const { quota_allowance: allowance } = group;
  const parts = [
    isEveryone(group) ? 'All members of the organization' : countMembers(group.total_member_count),
    allowance > 0 && `allowance of ${allowance} a day`,
    group.source === 'oidc' && 'synced with the identity provider',
  ];
  return (
    <>
      <Link to={paths.groups(organization)}>Groups</Link> · {parts.filter(Boolean).join(' · ')}
    </>
  );
}

function AddMembers({
  organization,
  group,
  onAdd,
  onClose,
}: {
  organization: string;
  group: Group;
  onAdd: (id: string) => Promise<unknown>;
  onClose: () => void;
}) {
  const [search, setSearch] = useState('');
  const members = useQuery({
    ...membersQuery(organization),
    select: (all: OrganizationMemberWithUserData[]) => all.filter((one) => matches(one, search)).slice(0, 50),
  });
  const known = new Set(group.members.map(({ id }) => id));
  return (
    <PickDialog
      title={`Add members to ${groupTitle(group)}`}
      label="Members of the organization"
      placeholder="Username, name or email…"
      search={search}
      onSearch={setSearch}
      found={members}
      keyOf={({ user_id }) => user_id}
      nameOf={({ username }) => username}
      cell={(member) => <Person person={member} />}
      isAdded={({ user_id }) => known.has(user_id)}
      added="Member"
      onAdd={({ user_id }) => onAdd(user_id)}
      empty={<EmptyState title="No member found">Add the person to the organization first.</EmptyState>}
      onClose={onClose}
    />
  );
}
