import type { UserSecret } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { Ellipsis, LockKeyhole, Pencil, Plus, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { apiQuery, makeChange, queryClient } from '../../api/query.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Button, IconButton } from '../../ui/button.tsx';
import { Switch } from '../../ui/choice.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Menu, MenuItem } from '../../ui/menu.tsx';
import { Section } from '../../ui/page.tsx';
import { EmptyState, QueryView } from '../../ui/states.tsx';
import { actionsColumn, type Column, Table } from '../../ui/table.tsx';
import { useNarrow } from '../../ui/use-narrow.ts';
import { formatRelative } from '../../util/time.ts';
import { SecretDialog } from './secret-dialog.tsx';

const secretsQuery = apiQuery('GET /users/{user}/secrets', [], { params: { user: 'me' } });
const refetch = () => queryClient.invalidateQueries({ queryKey: secretsQuery.queryKey });

/** The variable and the file of a secret. */
function Targets({ secret }: { secret: UserSecret }) {
  const targets = [secret.env_name, secret.file_path].filter(Boolean);
  if (targets.length === 0) return <span className="text-muted text-sm">No variable or file</span>;
  return (
    <span className="flex min-w-0 flex-col">
      {targets.map((target) => (
        <code key={target} className="truncate font-mono text-sm" title={target}>
          {target}
        </code>
      ))}
    </span>
  );
}

function EnabledSwitch({ secret }: { secret: UserSecret }) {
  const { name, enabled } = secret;
  const unusable = !enabled && !secret.env_name && !secret.file_path;
  return (
    <span className="flex" title={unusable ? 'Set a variable or a file first' : undefined}>
      <Switch
        label={`Give ${name} to workspaces`}
        checked={enabled}
        disabled={unusable}
        onChange={(next) =>
          makeChange(async () => {
            const params = { user: 'me', name };
            await call('PATCH /users/{user}/secrets/{name}', { params, body: { enabled: next } });
            await refetch();
          })
        }
      />
    </span>
  );
}

export default function SecretsPage() {
  const secrets = useQuery(secretsQuery);
  const narrow = useNarrow();
  const [edited, setEdited] = useState<UserSecret | 'new'>();
  const [deleted, setDeleted] = useState<UserSecret>();
  const columns: Column<UserSecret>[] = [
    {
      name: 'Name',
      cell: (secret) => (
        <span className="flex min-w-0 flex-col">
          <span className="truncate font-medium" title={secret.name}>
            {secret.name}
          </span>
          {secret.description && <span className="truncate text-muted text-sm">{secret.description}</span>}
          {narrow && <Targets secret={secret} />}
        </span>
      ),
    },
    { name: 'Variable and file', wideOnly: true, cell: (secret) => <Targets secret={secret} /> },
    {
      name: 'Updated',
      width: '8rem',
      wideOnly: true,
      cell: ({ updated_at }) => <span className="text-muted">{formatRelative(updated_at)}</span>,
    },
    { name: 'Enabled', width: '4.5rem', cell: (secret) => <EnabledSwitch secret={secret} /> },
    actionsColumn((secret) => (
      <Menu trigger={<IconButton icon={Ellipsis} size="sm" label={`Actions for ${secret.name}`} />}>
        <MenuItem icon={Pencil} onSelect={() => setEdited(secret)}>
          Edit
        </MenuItem>
        <MenuItem icon={Trash2} danger onSelect={() => setDeleted(secret)}>
          Delete
        </MenuItem>
      </Menu>
    )),
  ];
  const add = (
    <Button look="primary" icon={Plus} onClick={() => setEdited('new')}>
      Add secret
    </Button>
  );
  return (
    <SidebarPage
      title="Secrets"
      area="Settings"
      description="Variables and files that all your workspaces have. Nobody can read the values here."
      actions={secrets.data?.length !== 0 && add}
    >
      <Section flush>
        <QueryView
          query={secrets}
          loading={<Table label="Secrets" columns={columns} rows={undefined} rowKey={({ id }) => id} />}
        >
          {(rows) => (
            <Table
              label="Secrets"
              columns={columns}
              rows={rows}
              rowKey={({ id }) => id}
              empty={
                <EmptyState icon={LockKeyhole} title="No secrets" action={add}>
                  Add an API key, a password or a credentials file, and all your workspaces have it.
                </EmptyState>
              }
            />
          )}
        </QueryView>
      </Section>
      {edited && (
        <SecretDialog
          secret={edited === 'new' ? undefined : edited}
          onClose={() => setEdited(undefined)}
          onSaved={refetch}
        />
      )}
      <ConfirmDialog
        open={deleted !== undefined}
        onClose={() => setDeleted(undefined)}
        title={`Delete the secret ${deleted?.name ?? ''}?`}
        action="Delete secret"
        danger
        onConfirm={async () => {
          await call('DELETE /users/{user}/secrets/{name}', { params: { user: 'me', name: deleted!.name } });
          await refetch();
        }}
      >
        New processes in your workspaces no longer get it. Running processes keep the value, and its file stays on disk.
      </ConfirmDialog>
    </SidebarPage>
  );
}
