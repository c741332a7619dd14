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
import { apiQuery, makeChange } from '../../api/query.ts';
import { signInName } from '../../api/sign-in.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Status } from '../../ui/badge.tsx';
import { Button, IconButton, LinkButton } from '../../ui/button.tsx';
import type { Tone } from '../../ui/classes.ts';
import { Menu, MenuItem, MenuSeparator } from '../../ui/menu.tsx';
import { Section } from '../../ui/page.tsx';
import { SearchInput } from '../../ui/search-input.tsx';
import { Select } from '../../ui/select.tsx';
import { EmptyState, QueryView } from '../../ui/states.tsx';
import { actionsColumn, type Column, Table } from '../../ui/table.tsx';
import { toast } from '../../ui/toast.tsx';
import { paths } from '../../util/paths.ts';
import { useSearchParams } from '../../util/route.ts';
import { formatRelative, isZeroTime, useNow } from '../../util/time.ts';
import { Person } from '../organizations/person.tsx';
import { RoleBadges } from '../organizations/roles.tsx';
import { type AskedUser, refetchUsers, UserDialogs } from './user-dialogs.tsx';

const PAGE = 50;
const ALL = 'all';

const STATUS: Record<User['status'], { tone: Tone; name: string }> = {
  active: { tone: 'good', name: 'Active' },
  dormant: { tone: 'neutral', name: 'Dormant' },
  suspended: { tone: 'bad', name: 'Suspended' },
};

export default function UsersPage() {
  const may = useSitePermissions();
  const [{ filter = '', page = '1' }, setSearch] = useSearchParams();
  const [asked, setAsked] = useState<AskedUser>();
  const number = Math.max(1, Number.parseInt(page, 10) || 1);
  const q = useDeferredValue(filter);
  const users = useQuery({
    ...apiQuery('GET /users', [{ kind: 'user' }], { query: { q, limit: PAGE, offset: (number - 1) * PAGE } }),
    placeholderData: keepPreviousData,
  });
  const columns = useColumns(setAsked);
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
        <StatusFilter filter={filter} onFilter={(value) => setSearch({ filter: value, page: '' })} />
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
        <Pager
          number={number}
          shown={users.data.users.length}
          count={users.data.count}
          onNumber={(next) => setSearch({ page: String(next) })}
        />
      )}
      <UserDialogs asked={asked} onClose={() => setAsked(undefined)} />
    </SidebarPage>
  );
}

/** Chooses the status in the filter, which may have other terms. */
function StatusFilter({ filter, onFilter }: { filter: string; onFilter: (filter: string) => void }) {
  const setStatus = (value: string) => {
    const rest = filter.replace(/(^|\s)status:\S*/, '').trim();
    onFilter([rest, value === ALL ? '' : `status:${value}`].filter(Boolean).join(' '));
  };
  return (
    <Select
      label="Status"
      className="max-w-40"
      value={/(?:^|\s)status:(\w+)/.exec(filter)?.[1] ?? ALL}
      onChange={setStatus}
      options={[
        { value: ALL, label: 'All users' },
        ...Object.entries(STATUS).map(([value, { name }]) => ({ value, label: name })),
      ]}
    />
  );
}

/** The columns of the list. The last one has the menu, which asks with `onAsk`. */
function useColumns(onAsk: (asked: AskedUser) => void): Column<User>[] {
  const now = useNow(60_000);
  const methods = useQuery(apiQuery('GET /users/authmethods', [])).data;
  return [
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
    actionsColumn((user) => (
      <Menu trigger={<IconButton icon={Ellipsis} size="sm" label={`Actions for ${user.username}`} />}>
        <UserActions user={user} onAsk={onAsk} />
      </Menu>
    )),
  ];
}

/** The entries of a user's menu. */
function UserActions({ user, onAsk }: { user: User; onAsk: (asked: AskedUser) => void }) {
  const may = useSitePermissions();
  const me = useMe();
  const activate = async () => {
    await call('PUT /users/{user}/status/activate', { params: { user: user.id } });
    toast({ title: `${user.username} is active.` });
    await refetchUsers();
  };
  return (
    <>
      <MenuItem icon={SquareStack} to={paths.workspaces(`owner:${user.username}`)}>
        Workspaces
      </MenuItem>
      {may.updateUsers && (
        <>
          <MenuItem icon={ShieldCheck} disabled={user.id === me.id} onSelect={() => onAsk({ what: 'roles', user })}>
            Change roles
          </MenuItem>
          {user.login_type === 'password' && (
            <MenuItem icon={KeyRound} onSelect={() => onAsk({ what: 'password', user })}>
              Reset password
            </MenuItem>
          )}
          <MenuItem icon={LogIn} disabled={user.id === me.id} onSelect={() => onAsk({ what: 'login-type', user })}>
            Change sign-in method
          </MenuItem>
          <MenuSeparator />
          {user.status === 'suspended' ? (
            <MenuItem icon={UserCheck} onSelect={() => makeChange(activate)}>
              Activate
            </MenuItem>
          ) : (
            <MenuItem icon={UserX} disabled={user.id === me.id} onSelect={() => onAsk({ what: 'suspend', user })}>
              Suspend
            </MenuItem>
          )}
          <MenuItem icon={Trash2} danger disabled={user.id === me.id} onSelect={() => onAsk({ what: 'delete', user })}>
            Delete
          </MenuItem>
        </>
      )}
    </>
  );
}

/** Which of all users the page shows, and the way to the others. */
function Pager({
  number,
  shown,
  count,
  onNumber,
}: {
  /** The number of the page, from 1. */
  number: number;
  /** How many users the page shows. */
  shown: number;
  count: number;
  onNumber: (number: number) => void;
}) {
  return (
    <div className="flex items-center gap-3 text-muted text-sm">
      <span className="flex-1" role="status">
        {(number - 1) * PAGE + 1} to {(number - 1) * PAGE + shown} of {count}
      </span>
      {count > PAGE && (
        <>
          <Button size="sm" disabled={number === 1} onClick={() => onNumber(number - 1)}>
            Previous
          </Button>
          <Button size="sm" disabled={number * PAGE >= count} onClick={() => onNumber(number + 1)}>
            Next
          </Button>
        </>
      )}
    </div>
  );
}
