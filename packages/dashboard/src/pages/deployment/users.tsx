import type { User } from '@ropewalk/contract';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import {
  Ellipsis,
  KeyRound,
  LogIn,
  ShieldCheck,
  SquareStack,
  Trash2,
  UserCheck,
  UserPlus,
  Users,
  UserX,
} from 'lucide-react';
import { useDeferredValue, useState } from 'react';
import { call } from '../../api/client.ts';
import { useMe } from '../../api/me.ts';
import { useSitePermissions } from '../../api/permissions.ts';
import { apiQuery, queryClient, useChange } from '../../api/query.ts';
import { signInName } from '../../api/sign-in.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Status } from '../../ui/badge.tsx';
import { Button, IconButton, LinkButton } from '../../ui/button.tsx';
import type { Tone } from '../../ui/classes.ts';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Menu, MenuItem, MenuSeparator } from '../../ui/menu.tsx';
import { Section } from '../../ui/page.tsx';
import { SearchInput } from '../../ui/search-input.tsx';
import { Select } from '../../ui/select.tsx';
import { EmptyState, QueryView } from '../../ui/states.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { toast } from '../../ui/toast.tsx';
import { paths } from '../../util/paths.ts';
import { useSearchParams } from '../../util/route.ts';
import { formatRelative, isZeroTime, useNow } from '../../util/time.ts';
import { Person } from '../organizations/person.tsx';
import { RoleBadges, RolesDialog } from '../organizations/roles.tsx';
import { LoginTypeDialog } from './login-type.tsx';
import { ResetPasswordDialog } from './reset-password.tsx';

const PAGE = 50;
const ALL = 'all';

const STATUS: Record<User['status'], { tone: Tone; name: string }> = {
  active: { tone: 'good', name: 'Active' },
  dormant: { tone: 'neutral', name: 'Dormant' },
  suspended: { tone: 'bad', name: 'Suspended' },
};

type Asked = { what: 'delete' | 'suspend' | 'roles' | 'password' | 'login-type'; user: User };

export default function UsersPage() {
  const may = useSitePermissions();
  const me = useMe();
  const now = useNow(60_000);
  const [{ filter = '', page = '1' }, setSearch] = useSearchParams();
  const [asked, setAsked] = useState<Asked>();
  const number = Math.max(1, Number.parseInt(page, 10) || 1);
  const q = useDeferredValue(filter);
  const users = useQuery({
    ...apiQuery('GET /users', [{ kind: 'user' }], { query: { q, limit: PAGE, offset: (number - 1) * PAGE } }),
    placeholderData: keepPreviousData,
  });
  const methods = useQuery(apiQuery('GET /users/authmethods', [])).data;
  const roles = useQuery({ ...apiQuery('GET /users/roles', []), enabled: asked?.what === 'roles' });
  const refetch = () => queryClient.invalidateQueries({ queryKey: ['GET /users'] });
  const activate = useChange((user: User) => call('PUT /users/{user}/status/activate', { params: { user: user.id } }), {
    async onSuccess(_answer, user) {
      toast({ title: `${user.username} is active.` });
      await refetch();
    },
  });
  const status = /(?:^|\s)status:(\w+)/.exec(filter)?.[1] ?? ALL;
  const setStatus = (value: string) => {
    const rest = filter.replace(/(^|\s)status:\S*/, '').trim();
    setSearch({ filter: [rest, value === ALL ? '' : `status:${value}`].filter(Boolean).join(' '), page: '' });
  };
  const columns: Column<User>[] = [
    { name: 'Name', width: 'minmax(0,2fr)', cell: (user) => <Person person={user} /> },
    { name: 'Roles', wideOnly: true, cell: (user) => <RoleBadges roles={user.roles} /> },
    {
      name: 'Status',
      width: '6rem',
      cell: (user) => <Status tone={STATUS[user.status].tone}>{STATUS[user.status].name}</Status>,
    },
    {
      name: 'Signs in with',
      width: '9rem',
      wideOnly: true,
      cell: (user) => <span className="truncate text-muted">{signInName(user.login_type, methods)}</span>,
    },
    {
      name: 'Last seen',
      width: '9rem',
      wideOnly: true,
      cell: (user) => (
        <span className="text-muted">
          {isZeroTime(user.last_seen_at) ? 'Never' : formatRelative(user.last_seen_at!, now)}
        </span>
      ),
    },
    {
      name: '',
      label: 'Actions',
      width: '2rem',
      align: 'end',
      cell: (user) => (
        <Menu trigger={<IconButton icon={Ellipsis} size="sm" label={`Actions for ${user.username}`} />}>
          <MenuItem icon={SquareStack} to={paths.workspaces(`owner:${user.username}`)}>
            Workspaces
          </MenuItem>
          {may.updateUsers && (
            <>
              <MenuItem
                icon={ShieldCheck}
                disabled={user.id === me.id}
                onSelect={() => setAsked({ what: 'roles', user })}
              >
                Change roles
              </MenuItem>
              {user.login_type === 'password' && (
                <MenuItem icon={KeyRound} onSelect={() => setAsked({ what: 'password', user })}>
                  Reset password
                </MenuItem>
              )}
              <MenuItem
                icon={LogIn}
                disabled={user.id === me.id}
                onSelect={() => setAsked({ what: 'login-type', user })}
              >
                Change sign-in method
              </MenuItem>
              <MenuSeparator />
              {user.status === 'suspended' ? (
                <MenuItem icon={UserCheck} onSelect={() => activate.mutate(user)}>
                  Activate
                </MenuItem>
              ) : (
                <MenuItem
                  icon={UserX}
                  disabled={user.id === me.id}
                  onSelect={() => setAsked({ what: 'suspend', user })}
                >
                  Suspend
                </MenuItem>
              )}
              <MenuItem
                icon={Trash2}
                danger
                disabled={user.id === me.id}
                onSelect={() => setAsked({ what: 'delete', user })}
              >
                Delete
              </MenuItem>
            </>
          )}
        </Menu>
      ),
    },
  ];
  const close = () => setAsked(undefined);
  const params = { user: asked?.user.id ?? '' };
  return (
    <SidebarPage
      title="Users"
      area="Deployment"
      actions={
        may.createUser && (
          <LinkButton to={paths.newUser()} look="primary" icon={UserPlus}>
            Create user
          </LinkButton>
        )
      }
    >
      <div className="flex flex-wrap items-center gap-2">
        <div className="flex min-w-60 flex-1">
          <SearchInput
            label="Find users"
            placeholder="Name, email, or role:owner…"
            value={filter}
            onChange={(value) => setSearch({ filter: value, page: '' })}
          />
        </div>
        <Select
          label="Status"
          className="max-w-40"
          value={status}
          onChange={setStatus}
          options={[
            { value: ALL, label: 'All users' },
            ...Object.entries(STATUS).map(([value, { name }]) => ({ value, label: name })),
          ]}
        />
      </div>
      <Section flush>
        <QueryView
          query={users}
          loading={<Table label="Users" columns={columns} rows={undefined} rowKey={(user) => user.id} />}
        >
          {(data) => (
            <Table
              label="Users"
              columns={columns}
              rows={data.users}
              rowKey={(user) => user.id}
              empty={
                <EmptyState
                  icon={Users}
                  title="No user matches"
                  action={<Button onClick={() => setSearch({ filter: '', page: '' })}>Show all users</Button>}
                />
              }
            />
          )}
        </QueryView>
      </Section>
      {users.data && users.data.count > 0 && (
        <div className="flex items-center gap-3 text-muted text-sm">
          <span className="flex-1" role="status">
            {(number - 1) * PAGE + 1} to {(number - 1) * PAGE + users.data.users.length} of {users.data.count}
          </span>
          {users.data.count > PAGE && (
            <>
              <Button size="sm" disabled={number === 1} onClick={() => setSearch({ page: String(number - 1) })}>
                Previous
              </Button>
              <Button
                size="sm"
                disabled={number * PAGE >= users.data.count}
                onClick={() => setSearch({ page: String(number + 1) })}
              >
                Next
              </Button>
            </>
          )}
        </div>
      )}
      <ConfirmDialog
        open={asked?.what === 'suspend'}
        onClose={close}
        title={`Suspend ${asked?.user.username ?? ''}?`}
        action="Suspend"
        danger
        onConfirm={async () => {
          await call('PUT /users/{user}/status/suspend', { params });
          await refetch();
        }}
      >
        They are signed out immediately and cannot sign in. Their workspaces stay as they are.
      </ConfirmDialog>
      <ConfirmDialog
        open={asked?.what === 'delete'}
        onClose={close}
        title={`Delete ${asked?.user.username ?? ''}?`}
        action="Delete user"
        danger
        typeToConfirm={asked?.user.username ?? ''}
        onConfirm={async () => {
          await call('DELETE /users/{user}', { params });
          toast({ title: `${asked!.user.username} was deleted.` });
          await refetch();
        }}
      >
        This cannot be undone. Delete their workspaces first.
      </ConfirmDialog>
      {asked?.what === 'roles' && (
        <RolesDialog
          person={asked.user.username}
          current={asked.user.roles}
          roles={roles}
          onClose={close}
          onSave={async (names) => {
            await call('PUT /users/{user}/roles', { params, body: { roles: names } });
            await refetch();
          }}
        />
      )}
      {asked?.what === 'password' && <ResetPasswordDialog user={asked.user} onClose={close} />}
      {asked?.what === 'login-type' && <LoginTypeDialog user={asked.user} onClose={close} />}
    </SidebarPage>
  );
}
