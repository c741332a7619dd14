import type { ProvisionerKey } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { KeyRound, Plus, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { fieldError } from '../../api/errors.ts';
import { buildInfoQuery } from '../../api/me.ts';
import { useOrganizationPermissions } from '../../api/permissions.ts';
import { apiQuery, queryClient, useChange } from '../../api/query.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Button, IconButton } from '../../ui/button.tsx';
import { CodeBlock, CodeLine } from '../../ui/copy.tsx';
import { ConfirmDialog, Dialog } from '../../ui/dialog.tsx';
import { Field, Input } from '../../ui/field.tsx';
import { Form } from '../../ui/form.tsx';
import { Link, RowLink } from '../../ui/link.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Section } from '../../ui/page.tsx';
import { EmptyState, QueryView } from '../../ui/states.tsx';
import { actionsColumn, type Column, Table } from '../../ui/table.tsx';
import { TagList, type TagRow, TagsEditor } from '../../ui/tags.tsx';
import { paths } from '../../util/paths.ts';
import { shellWord } from '../../util/shell.ts';
import { formatDate } from '../../util/time.ts';
import { shownTags } from './provisioning.ts';
import { useOrganization } from './use-organization.ts';

export default function KeysPage() {
  const organization = useOrganization();
  const params = { organization: organization.id };
  const may = useOrganizationPermissions(organization.id);
  const query = apiQuery('GET /organizations/{organization}/provisionerkeys', [], { params });
  const keys = useQuery(query);
  const daemons = useQuery(
    apiQuery(
      'GET /organizations/{organization}/provisionerkeys/daemons',
      [{ kind: 'provisioner' }, { kind: 'provisioner_key' }],
      { params },
    ),
  );
  const [creating, setCreating] = useState(false);
  const [deleted, setDeleted] = useState<ProvisionerKey>();
  const refetch = () =>
    Promise.all([
      queryClient.invalidateQueries({ queryKey: query.queryKey }),
      queryClient.invalidateQueries({ queryKey: ['GET /organizations/{organization}/provisionerkeys/daemons'] }),
    ]);
  const connected = (key: ProvisionerKey) => daemons.data?.find((each) => each.key.id === key.id)?.daemons.length ?? 0;
  const columns: Column<ProvisionerKey>[] = [
    {
      name: 'Name',
      width: 'minmax(0,2fr)',
      cell: (key) => (
        <span className="flex min-w-0 flex-col gap-1">
          <span className="wrap-anywhere font-medium">{key.name}</span>
          <TagList tags={shownTags(key.tags)} />
        </span>
      ),
    },
    {
      name: 'Daemons',
      numeric: true,
      width: '6rem',
      cell: (key) =>
        connected(key) > 0 ? (
          <RowLink to={paths.provisioners(organization.name)}>{connected(key)} connected</RowLink>
        ) : (
          <span className="text-muted">None</span>
        ),
    },
    {
      name: 'Created',
      width: '8rem',
      wideOnly: true,
      cell: (key) => <span className="text-muted">{formatDate(key.created_at)}</span>,
    },
    actionsColumn(
      (key) =>
        may.deleteProvisionerKeys && (
          <IconButton icon={Trash2} size="sm" label={`Delete the key ${key.name}`} onClick={() => setDeleted(key)} />
        ),
    ),
  ];
  const create = may.createProvisionerKeys && (
    <Button look="primary" icon={Plus} onClick={() => setCreating(true)}>
      Create key
    </Button>
  );
  return (
    <SidebarPage
      title="Provisioner keys"
      area={organization.display_name || organization.name}
      description="A daemon connects with a key, which also gives it its tags."
      actions={keys.data?.length !== 0 && create}
    >
      <Section flush>
        <QueryView
          query={keys}
          loading={<Table label="Provisioner keys" columns={columns} rows={undefined} rowKey={(key) => key.id} />}
        >
          {(rows) => (
            <Table
              label="Provisioner keys"
              columns={columns}
              rows={rows}
              rowKey={(key) => key.id}
              empty={
                <EmptyState icon={KeyRound} title="No provisioner keys" action={create}>
                  With a key, a daemon on another machine runs builds: closer to the cloud, or with other credentials.
                </EmptyState>
              }
            />
          )}
        </QueryView>
      </Section>
      {creating && (
        <CreateKeyDialog organization={organization.id} onClose={() => setCreating(false)} onCreated={refetch} />
      )}
      <ConfirmDialog
        open={deleted !== undefined}
        onClose={() => setDeleted(undefined)}
        title={`Delete the key ${deleted?.name ?? ''}?`}
        action="Delete key"
        danger
        typeToConfirm={deleted?.name ?? ''}
        onConfirm={async () => {
          await call('DELETE /organizations/{organization}/provisionerkeys/{provisionerkey}', {
            params: { ...params, provisionerkey: deleted!.name },
          });
          await refetch();
        }}
      >
        Its daemons are disconnected within seconds, and their running builds are canceled.
      </ConfirmDialog>
    </SidebarPage>
  );
}

function CreateKeyDialog({
  organization,
  onCreated,
  onClose,
}: {
  organization: string;
  onCreated: () => Promise<unknown>;
  onClose: () => void;
}) {
  const [name, setName] = useState('');
  const [rows, setRows] = useState<readonly TagRow[]>([]);
  const create = useChange(
    () =>
      call('POST /organizations/{organization}/provisionerkeys', {
        params: { organization },
        body: { name, tags: Object.fromEntries(rows.filter(([tag]) => tag !== '')) },
      }),
    { ownError: true, onSuccess: onCreated },
  );
  if (create.data) return <CreatedKeyDialog name={name} secret={create.data.key} onClose={onClose} />;
  return (
    <Dialog open onClose={onClose} title="Create a provisioner key">
      <div className="pb-3">
        <Form
          inDialog
          onSubmit={() => create.mutate()}
          error={create.error}
          fields={['name', 'tags']}
          actions={
            <>
              <Button onClick={onClose}>Cancel</Button>
              <Button type="submit" look="primary" pending={create.isPending} disabled={!name}>
                Create key
              </Button>
            </>
          }
        >
          <Field
            label="Name"
            help="Where its daemons run, for example rack-1."
            error={fieldError(create.error, 'name')}
          >
            <Input autoFocus value={name} onChange={(event) => setName(event.target.value)} />
          </Field>
          <fieldset className="flex flex-col gap-1.5">
            <legend className="mb-1.5 font-medium text-sm">Tags</legend>
            <TagsEditor rows={rows} onChange={setRows} />
            <p className="text-muted text-sm">
              With tags, its daemons take only jobs that have some of these tags and no others. Without tags, they take
              only jobs without tags.
            </p>
            {fieldError(create.error, 'tags') && (
              <p className="text-bad text-sm" role="alert">
                {fieldError(create.error, 'tags')}
              </p>
            )}
          </fieldset>
        </Form>
      </div>
    </Dialog>
  );
}

/** The key and the commands that use it. The server never shows it again. */
function CreatedKeyDialog({ name, secret, onClose }: { name: string; secret: string; onClose: () => void }) {
  const url = useQuery(buildInfoQuery).data?.dashboard_url || location.origin;
  const commands = [
    `export CODER_URL=${url}`,
    `export CODER_PROVISIONER_DAEMON_KEY=${secret}`,
    `coder provisioner start --name ${shellWord(name)}`,
  ].join('\n');
  return (
    <Dialog
      open
      onClose={onClose}
      title={`The key ${name} was created`}
      footer={
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      }
      wide
    >
      <div className="flex flex-col gap-4">
        <Notice tone="warn" title="Copy the key now. It is not shown again." />
        <CodeLine code={secret} label="Copy the key" wrap />
        <div className="flex flex-col gap-1.5">
          <span className="font-medium text-sm">Start a daemon with it</span>
          <CodeBlock code={commands} label="Copy the commands" />
          <span className="text-muted text-sm">
            The machine needs the coder program. <Link to={paths.install()}>Install it</Link>
          </span>
        </div>
      </div>
    </Dialog>
  );
}
