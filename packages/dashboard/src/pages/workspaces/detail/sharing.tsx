import type { SharedWorkspaceActor, Workspace, WorkspaceRole } from '@ropewalk/contract';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Trash2, UserPlus } from 'lucide-react';
import { useDeferredValue, useState } from 'react';
import { call } from '../../../api/client.ts';
import type { WorkspacePermissions } from '../../../api/permissions.ts';
import { apiQuery, useChange } from '../../../api/query.ts';
import { Avatar } from '../../../ui/avatar.tsx';
import { Button, IconButton } from '../../../ui/button.tsx';
import { Section } from '../../../ui/page.tsx';
import { PickDialog } from '../../../ui/pick-dialog.tsx';
import { Select } from '../../../ui/select.tsx';
import { EmptyState } from '../../../ui/states.tsx';

/** A person or a group that a workspace is, or could be, shared with. */
interface Guest {
  kind: SharedWorkspaceActor['actor_type'];
  id: string;
  name: string;
  detail: string;
  picture: string | undefined;
  role: WorkspaceRole;
}

const ROLES = [
  { value: 'use', label: 'Use', help: 'Connects, starts and stops.' },
  { value: 'admin', label: 'Admin', help: 'Also changes the workspace and shares it.' },
];

const toGuest = ({ id, actor_type: kind, name, avatar_url: picture, roles }: SharedWorkspaceActor): Guest => ({
  kind,
  id,
  name,
  detail: kind === 'group' ? 'Group' : 'Person',
  picture,
  role: roles[0] ?? 'use',
});

const settingQuery = (organization: string) =>
  apiQuery('GET /organizations/{organization}/settings/workspace-sharing', [{ kind: 'organization' }], {
    params: { organization },
  });

/** The people and groups that a workspace is shared with. Empty for people who cannot share it while it is not shared. */
export function Sharing({ workspace, may }: { workspace: Workspace; may: WorkspacePermissions | undefined }) {
  const setting = useQuery(settingQuery(workspace.organization_id)).data;
  const [adding, setAdding] = useState(false);
  const change = useChange(
    ({ kind, id, role }: Guest) =>
      call('PATCH /workspaces/{workspace}/acl', {
        params: { workspace: workspace.id },
        body: kind === 'user' ? { user_roles: { [id]: role } } : { group_roles: { [id]: role } },
      }),
    { refetch: ['GET /users/{user}/workspace/{workspacename}'] },
  );
  const guests = (workspace.shared_with ?? []).map(toGuest);
  const shareable = (may?.share ?? false) && setting?.shareable_workspace_owners === 'everyone';
  if (guests.length === 0 && !shareable) return null;
  const busy = ({ id }: Guest) => change.isPending && change.variables.id === id;
  return (
    <Section title="Sharing">
      {guests.length === 0 ? (
        <p className="text-muted text-sm">Nobody else can use this workspace.</p>
      ) : (
        <ul aria-label="Shared with" className="flex flex-col gap-2.5">
          {guests.map((guest) => (
            <li key={guest.id} className="flex min-w-0 items-center gap-2">
              <Avatar square={guest.kind === 'group'} name={guest.name} src={guest.picture} />
              <span className="min-w-0 flex-1 leading-5">
                <span className="block truncate font-medium">{guest.name}</span>
                <span className="block truncate text-muted text-sm">{guest.detail}</span>
              </span>
              {shareable ? (
                <>
                  <span className="w-24 shrink-0">
                    <Select
                      label={`Role of ${guest.name}`}
                      value={guest.role}
                      options={ROLES}
                      disabled={busy(guest)}
                      onChange={(role) => change.mutate({ ...guest, role: role as WorkspaceRole })}
                    />
                  </span>
                  <IconButton
                    icon={Trash2}
                    size="sm"
                    label={`Remove ${guest.name}`}
                    pending={busy(guest) && change.variables?.role === ''}
                    onClick={() => change.mutate({ ...guest, role: '' })}
                  />
                </>
              ) : (
                <span className="shrink-0 text-muted text-sm">{guest.role === 'admin' ? 'Admin' : 'Use'}</span>
              )}
            </li>
          ))}
        </ul>
      )}
      {shareable && (
        <div>
          <Button size="sm" icon={UserPlus} onClick={() => setAdding(true)}>
            Share
          </Button>
        </div>
      )}
      {adding && (
        <AddGuests
          workspace={workspace}
          guests={guests}
          onAdd={(guest) => change.mutateAsync(guest)}
          onClose={() => setAdding(false)}
        />
      )}
    </Section>
  );
}

function AddGuests({
  workspace,
  guests,
  onAdd,
  onClose,
}: {
  workspace: Workspace;
  guests: readonly Guest[];
  onAdd: (guest: Guest) => Promise<unknown>;
  onClose: () => void;
}) {
  const [search, setSearch] = useState('');
  const q = useDeferredValue(search.trim());
  const place = { params: { organization: workspace.organization_id } };
  const groups = useQuery(apiQuery('GET /organizations/{organization}/groups', [{ kind: 'group' }], place)).data ?? [];
  const found = useQuery({
    ...apiQuery('GET /organizations/{organization}/paginated-members', [{ kind: 'organization_member' }], {
      ...place,
      query: { q, limit: 20 },
    }),
    placeholderData: keepPreviousData,
    select: ({ members }): Guest[] => [
      ...groups
        .filter((group) => `${group.name} ${group.display_name}`.toLowerCase().includes(q.toLowerCase()))
        .map(
          (group): Guest => ({
            kind: 'group',
            id: group.id,
            name: group.display_name || group.name,
            detail: group.id === group.organization_id ? 'All members of the organization' : 'Group',
            picture: group.avatar_url,
            role: 'use',
          }),
        ),
      ...members
        .filter(({ user_id }) => user_id !== workspace.owner_id)
        .map(
          (member): Guest => ({
            kind: 'user',
            id: member.user_id,
            name: member.name || member.username,
            detail: member.username,
            picture: member.avatar_url,
            role: 'use',
          }),
        ),
    ],
  });
  const known = new Set(guests.map(({ id }) => id));
  return (
    <PickDialog
      title={`Share ${workspace.name}`}
      label="People and groups"
      placeholder="Group, username or name…"
      search={search}
      onSearch={setSearch}
      found={found}
      keyOf={({ id }) => id}
      nameOf={({ name }) => name}
      cell={({ kind, name, detail, picture }) => (
        <span className="flex min-w-0 items-center gap-3">
          <Avatar square={kind === 'group'} name={name} src={picture} />
          <span className="min-w-0">
            <span className="block truncate font-medium">{name}</span>
            <span className="block truncate text-muted text-sm">{detail}</span>
          </span>
        </span>
      )}
      isAdded={({ id }) => known.has(id)}
      added="Shared"
      onAdd={onAdd}
      empty={<EmptyState title="Nobody found">Only members and groups of the organization can be chosen.</EmptyState>}
      onClose={onClose}
    />
  );
}
