import type { GetUsersResponse, OrganizationMemberWithUserData, User } from '@ropewalk/contract';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Ellipsis, ShieldCheck, UserMinus, UserPlus, Users } from 'lucide-react';
import { useDeferredValue, useState } from 'react';
import { call } from '../../api/client.ts';
import { useMe } from '../../api/me.ts';
import { type OrganizationPermissions, useOrganizationPermissions } from '../../api/permissions.ts';
import { apiQuery, queryClient, useChange } from '../../api/query.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Button, IconButton } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Menu, MenuItem } from '../../ui/menu.tsx';
import { Section } from '../../ui/page.tsx';
import { PickDialog } from '../../ui/pick-dialog.tsx';
import { SearchInput } from '../../ui/search-input.tsx';
import { EmptyState, QueryView } from '../../ui/states.tsx';
import { actionsColumn, type Column, Table } from '../../ui/table.tsx';
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
  const may = useOrganizationPermissions(organization.id);
  const query = membersQuery(organization.id);
  const members = useQuery(query);
  const [search, setSearch] = useState('');
  const [adding, setAdding] = useState(false);
  const [removed, setRemoved] = useState<Member>();
  const [changed, setChanged] = useState<Member>();
  const refetch = () => queryClient.invalidateQueries({ queryKey: query.queryKey });
  const wanted = useDeferredValue(search.trim().toLowerCase());
  const shown = members.data?.filter(({ username, name, email }) =>
    [username, name, email].some((text) => text?.toLowerCase().includes(wanted)),
  );
  const columns = columnsFor(may, { onChangeRoles: setChanged, onRemove: setRemoved });
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
            params: { organization: organization.id, user: removed!.user_id },
          });
          toast({ title: `${removed!.username} was removed.` });
          await refetch();
        }}
      >
        They lose access to the templates and workspaces of this organization. Their workspaces are kept.
      </ConfirmDialog>
      {changed && (
        <MemberRolesDialog
          organization={organization.id}
          member={changed}
          onSaved={refetch}
          onClose={() => setChanged(undefined)}
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

interface MemberActions {
  onChangeRoles: (member: Member) => void;
  onRemove: (member: Member) => void;
}

/** The columns of the list. The last one has the menu, for a person who may use one of its entries. */
function columnsFor(may: Partial<OrganizationPermissions>, actions: MemberActions): Column<Member>[] {
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
    columns.push(
      actionsColumn((member) => (
        <Menu trigger={<IconButton icon={Ellipsis} size="sm" label={`Actions for ${member.username}`} />}>
          <MenuEntries member={member} may={may} {...actions} />
        </Menu>
      )),
    );
  }
  return columns;
}

/** The entries of a member's menu. */
function MenuEntries({
  member,
  may,
  onChangeRoles,
  onRemove,
}: MemberActions & { member: Member; may: Partial<OrganizationPermissions> }) {
  const me = useMe();
  return (
    <>
      {may.assignRoles && (
        <MenuItem icon={ShieldCheck} disabled={member.user_id === me.id} onSelect={() => onChangeRoles(member)}>
          Change roles
        </MenuItem>
      )}
      {may.removeMembers && (
        <MenuItem icon={UserMinus} danger onSelect={() => onRemove(member)}>
          Remove from the organization
        </MenuItem>
      )}
    </>
  );
}

function MemberRolesDialog({
  organization,
  member,
  onSaved,
  onClose,
}: {
  organization: string;
  member: Member;
  onSaved: () => Promise<unknown>;
  onClose: () => void;
}) {
  return (
    <RolesDialog
      person={member.username}
      current={member.roles}
      roles={useQuery(rolesQuery(organization))}
      onClose={onClose}
      onSave={async (names) => {
        await call('PUT /organizations/{organization}/members/{user}/roles', {
          params: { organization, user: member.user_id },
          body: { roles: names },
        });
        await onSaved();
      }}
    />
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
