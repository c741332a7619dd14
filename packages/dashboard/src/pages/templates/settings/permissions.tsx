import type {
  ACLAvailable,
  Template,
  TemplateACL,
  TemplateGroup,
  TemplateRole,
  TemplateUser,
} from '@ropewalk/contract';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Trash2, UserPlus, UsersRound } from 'lucide-react';
import { useDeferredValue, useState } from 'react';
import { call } from '../../../api/client.ts';
import { apiQuery, useChange } from '../../../api/query.ts';
import { Avatar } from '../../../ui/avatar.tsx';
import { Badge } from '../../../ui/badge.tsx';
import { Button, IconButton } from '../../../ui/button.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { Section } from '../../../ui/page.tsx';
import { PickDialog } from '../../../ui/pick-dialog.tsx';
import { Select } from '../../../ui/select.tsx';
import { EmptyState, QueryView } from '../../../ui/states.tsx';
import { actionsColumn, type Column, Table } from '../../../ui/table.tsx';
import { useTemplate } from '../data.ts';
import { SettingsPage } from './settings-page.tsx';

/** A person or a group, with or without a permission on the template. */
type Holder =
  | { kind: 'user'; id: string; name: string; detail: string; picture?: string | undefined; role: TemplateRole }
  | { kind: 'group'; id: string; name: string; detail: string; picture?: string | undefined; role: TemplateRole };

type User = Omit<TemplateUser, 'role' | 'roles' | 'organization_ids' | 'has_ai_seat'> & { role?: TemplateRole };
type Group = Omit<TemplateGroup, 'role'> & { role?: TemplateRole };

const ofUser = (user: User): Holder => ({
  kind: 'user',
  id: user.id,
  name: user.name || user.username,
  detail: user.email,
  picture: user.avatar_url,
  role: user.role ?? '',
});

const ofGroup = (group: Group): Holder => {
  const count = group.total_member_count;
  const everyone = group.id === group.organization_id;
  return {
    kind: 'group',
    id: group.id,
    name: group.display_name || group.name,
    detail: everyone ? 'All members of the organization' : count === 1 ? '1 member' : `${count} members`,
    picture: group.avatar_url,
    role: group.role ?? '',
  };
};

const holdersOf = ({ users, group }: TemplateACL): Holder[] => [...group.map(ofGroup), ...users.map(ofUser)];

const ROLES = [
  { value: 'use', label: 'Use', help: 'Sees the template and creates workspaces.' },
  { value: 'admin', label: 'Admin', help: 'Also changes the template, its versions and its permissions.' },
];

const aclQuery = (template: string) =>
  apiQuery(
    'GET /templates/{template}/acl',
    [{ kind: 'template', id: template }, { kind: 'group' }, { kind: 'organization_member' }],
    { params: { template } },
  );

export default function PermissionSettings() {
  const template = useTemplate();
  return (
    <SettingsPage template={template} title="Permissions">
      <Permissions key={template.id} template={template} />
    </SettingsPage>
  );
}

function Permissions({ template }: { template: Template }) {
  const acl = useQuery(aclQuery(template.id));
  const [adding, setAdding] = useState(false);
  const change = useChange(
    ({ kind, id, role }: Holder) =>
      call('PATCH /templates/{template}/acl', {
        params: { template: template.id },
        body: kind === 'user' ? { user_perms: { [id]: role } } : { group_perms: { [id]: role } },
      }),
    { refetch: ['GET /templates/{template}/acl'] },
  );
  const busy = (holder: Holder) => change.isPending && change.variables.id === holder.id;
  const columns: Column<Holder>[] = [
    { name: 'Name', width: 'minmax(0,2fr)', cell: (holder) => <HolderCell holder={holder} /> },
    {
      name: 'Permission',
      width: '7rem',
      cell: (holder) => (
        <Select
          label={`Permission of ${holder.name}`}
          value={holder.role}
          options={ROLES}
          disabled={busy(holder)}
          onChange={(role) => change.mutate({ ...holder, role: role as TemplateRole })}
        />
      ),
    },
    actionsColumn((holder) => (
      <IconButton
        icon={Trash2}
        size="sm"
        label={`Remove ${holder.name}`}
        pending={busy(holder) && change.variables?.role === ''}
        onClick={() => change.mutate({ ...holder, role: '' })}
      />
    )),
  ];
  const everyone = acl.data?.group.some(({ id }) => id === template.organization_id);
  const none = acl.data && holdersOf(acl.data).length === 0;
  const add = (
    // the page's primary button creates a workspace
    <Button icon={UserPlus} onClick={() => setAdding(true)}>
      Add people
    </Button>
  );
  return (
    <>
      {everyone && (
        <Notice title="All members of the organization can use this template.">
          Remove the group Everyone to make it private.
        </Notice>
      )}
      <Section
        title="Permissions"
        description="Template administrators of the organization can always change this template."
        actions={!none && add}
        flush
      >
        <QueryView
          query={acl}
          loading={<Table label="Permissions" columns={columns} rows={undefined} rowKey={(holder) => holder.id} />}
        >
          {(data) => (
            <Table
              label="Permissions"
              columns={columns}
              rows={holdersOf(data)}
              rowKey={(holder) => holder.id}
              empty={
                <EmptyState icon={UsersRound} title="Only administrators can use this template" action={add}>
                  Add people or groups who create workspaces from it.
                </EmptyState>
              }
            />
          )}
        </QueryView>
      </Section>
      {adding && (
        <AddPeople
          template={template}
          holders={acl.data ? holdersOf(acl.data) : []}
          onAdd={(holder) => change.mutateAsync({ ...holder, role: 'use' })}
          onClose={() => setAdding(false)}
        />
      )}
    </>
  );
}

function HolderCell({ holder }: { holder: Holder }) {
  return (
    <span className="flex min-w-0 items-center gap-3">
      <Avatar square={holder.kind === 'group'} name={holder.name} src={holder.picture} />
      <span className="min-w-0">
        <span className="flex flex-wrap items-center gap-x-2">
          <span className="min-w-0 truncate font-medium">{holder.name}</span>
          {holder.kind === 'group' && <Badge>Group</Badge>}
        </span>
        <span className="block truncate text-muted text-sm">{holder.detail}</span>
      </span>
    </span>
  );
}

function AddPeople({
  template,
  holders,
  onAdd,
  onClose,
}: {
  template: Template;
  holders: readonly Holder[];
  onAdd: (holder: Holder) => Promise<unknown>;
  onClose: () => void;
}) {
  const [search, setSearch] = useState('');
  const q = useDeferredValue(search.trim());
  const found = useQuery({
    ...apiQuery('GET /templates/{template}/acl/available', [{ kind: 'group' }, { kind: 'organization_member' }], {
      params: { template: template.id },
      query: { q, limit: 20 },
    }),
    placeholderData: keepPreviousData,
    select: ({ groups, users }: ACLAvailable) => [...groups.map(ofGroup), ...users.map(ofUser)],
  });
  const known = new Set(holders.map(({ id }) => id));
  return (
    <PickDialog
      title="Add people and groups"
      label="People and groups"
      placeholder="Group, username, name or email…"
      search={search}
      onSearch={setSearch}
      found={found}
      keyOf={({ id }) => id}
      nameOf={({ name }) => name}
      cell={(holder) => <HolderCell holder={holder} />}
      isAdded={({ id }) => known.has(id)}
      added="Added"
      onAdd={onAdd}
      empty={<EmptyState title="Nobody found">Only members and groups of the organization can be added.</EmptyState>}
      onClose={onClose}
    />
  );
}
