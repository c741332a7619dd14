import type { GetUsersResponse, OrganizationMemberWithUserData, User } from '@ropewalk/contract';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Ellipsis, ShieldCheck, UserMinus, UserPlus, Users } from 'lucide-react';
import { useDeferredValue, useState } from 'react';
import { call } from '../../api/client.ts';
import { useMe } from '../../api/me.ts';
import { useOrganizationPermissions } from '../../api/permissions.ts';
import { apiQuery, queryClient, useChange } from '../../api/query.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Button, IconButton } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Menu, MenuItem } from '../../ui/menu.tsx';
import { Section } from '../../ui/page.tsx';
import { PickDialog } from '../../ui/pick-dialog.tsx';
import { SearchInput } from '../../ui/search-input.tsx';
import { EmptyState, QueryView } from '../../ui/states.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { toast } from '../../ui/toast.tsx';
import { formatDate } from '../../util/time.ts';
import { membersQuery } from './members-query.ts';
import { Person } from './person.tsx';
import { RoleBadges, RolesDialog } from './roles.tsx';
import { rolesQuery } from './roles-query.ts';
import { useOrganization } from './use-organization.ts';

type Member = OrganizationMemberWithUserData;

export default function MembersPage() {
  const organization = useOrganization();
  const params = { organization: organization.id };
  const may = useOrganizationPermissions(organization.id);
  const me = useMe();
  const query = membersQuery(organization.id);
  const members = useQuery(query);
  const [search, setSearch] = useState('');
  const [adding, setAdding] = useState(false);
  const [removed, setRemoved] = useState<Member>();
  const [changed, setChanged] = useState<Member>();
  const roles = useQuery({
    ...rolesQuery(organization.id),
    enabled: changed !== undefined,
  });
  const refetch = () => queryClient.invalidateQueries({ queryKey: query.queryKey });
  const wanted = useDeferredValue(search.trim().toLowerCase());
  const shown = members.data?.filter(({ username, name, email }) =>
    [username, name, email].some((text) => text?.toLowerCase().includes(wanted)),
  );
  const columns: Column<Member>[] = [
    { name: 'Name', width: 'minmax(0,2fr)', cell: (member) => <Person person={member} /> },
    { name: 'Roles', cell: (member) => <RoleBadges roles={member.roles} /> },
    {
      name: 'Member since',
      width: '9rem',
      wideOnly: true,
      cell: (member) => <span className="text-muted">{formatDate(member.created_at)}</span>,
    },
  ];
  if (may.assignRoles || may.removeMembers) {
    columns.push({
      name: '',
      label: 'Actions',
      width: '2rem',
      align: 'end',
      cell: (member) => (
        <Menu trigger={<IconButton icon={Ellipsis} size="sm" label={`Actions for ${member.username}`} />}>
          {may.assignRoles && (
            <MenuItem icon={ShieldCheck} disabled={member.user_id === me.id} onSelect={() => setChanged(member)}>
              Change roles
            </MenuItem>
          )}
          {may.removeMembers && (
            <MenuItem icon={UserMinus} danger onSelect={() => setRemoved(member)}>
              Remove from the organization
            </MenuItem>
          )}
        </Menu>
      ),
    });
  }
  return (
    <SidebarPage
      title="Members"
      area={organization.display_name || organization.name}
      description={organization.description || undefined}
      actions={
        may.addMembers && (
          <Button look="primary" icon={UserPlus} onClick={() => setAdding(true)}>
            Add member
          </Button>
        )
      }
    >
      <div className="flex items-center gap-3">
        <SearchInput label="Find a member" placeholder="Find a member…" value={search} onChange={setSearch} />
        {members.data && (
          <span className="text-muted text-sm" role="status">
            {shown?.length === 1 ? '1 member' : `${shown?.length} members`}
          </span>
        )}
      </div>
      <Section flush>
        <QueryView
          query={members}
          loading={<Table label="Members" columns={columns} rows={undefined} rowKey={(member) => member.user_id} />}
        >
          {() => (
            <Table
              label="Members"
              columns={columns}
              rows={shown}
              rowKey={(member) => member.user_id}
              empty={
                <EmptyState
                  icon={Users}
                  title="No member matches"
                  action={<Button onClick={() => setSearch('')}>Show all members</Button>}
                >
                  Search by username, name or email.
                </EmptyState>
              }
            />
          )}
        </QueryView>
      </Section>
      <ConfirmDialog
        open={removed !== undefined}
        onClose={() => setRemoved(undefined)}
        title={`Remove ${removed?.username ?? ''}?`}
        action="Remove"
        danger
        onConfirm={async () => {
          await call('DELETE /organizations/{organization}/members/{user}', {
            params: { ...params, user: removed!.user_id },
          });
          toast({ title: `${removed!.username} was removed.` });
          await refetch();
        }}
      >
        They lose access to the templates and workspaces of this organization. Their workspaces are kept.
      </ConfirmDialog>
      {changed && (
        <RolesDialog
          person={changed.username}
          current={changed.roles}
          roles={roles}
          onClose={() => setChanged(undefined)}
          onSave={async (names) => {
            await call('PUT /organizations/{organization}/members/{user}/roles', {
              params: { ...params, user: changed.user_id },
              body: { roles: names },
            });
            await refetch();
          }}
        />
      )}
      {adding && (
        <AddMemberDialog
          organization={organization.id}
          members={members.data ?? []}
          onAdded={refetch}
          onClose={() => setAdding(false)}
        />
      )}
    </SidebarPage>
  );
}

function AddMemberDialog({
  organization,
  members,
  onAdded,
  onClose,
}: {
  organization: string;
  members: readonly Member[];
  onAdded: () => Promise<unknown>;
  onClose: () => void;
}) {
  const [search, setSearch] = useState('');
  const text = useDeferredValue(search.trim());
  const users = useQuery({
    ...apiQuery('GET /users', [], { query: { q: text ? `search:${JSON.stringify(text)}` : '', limit: 20 } }),
    placeholderData: keepPreviousData,
    select: ({ users: found }: GetUsersResponse) => found,
  });
  const add = useChange(
    (user: User) =>
      call('POST /organizations/{organization}/members/{user}', { params: { organization, user: user.id } }),
    {
      async onSuccess(_answer, user) {
        toast({ title: `${user.username} was added.` });
        await onAdded();
      },
    },
  );
  const known = new Set(members.map(({ user_id }) => user_id));
  return (
    <PickDialog
      title="Add members"
      label="Users"
      placeholder="Username, name or email…"
      search={search}
      onSearch={setSearch}
      found={users}
      keyOf={({ id }) => id}
      nameOf={({ username }) => username}
      cell={(user) => <Person person={user} />}
      isAdded={({ id }) => known.has(id)}
      added="Member"
      onAdd={(user) => add.mutateAsync(user)}
      empty={<EmptyState title="No user found">Create the account first, on the page Users.</EmptyState>}
      onClose={onClose}
    />
  );
}
