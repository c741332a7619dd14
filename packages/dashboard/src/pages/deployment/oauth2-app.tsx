import type { OAuth2ProviderApp, OAuth2ProviderAppSecret } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { KeyRound, Plus, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { apiQuery, queryClient, useChange } from '../../api/query.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Button, IconButton } from '../../ui/button.tsx';
import { CodeLine } from '../../ui/copy.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Facts, Section } from '../../ui/page.tsx';
import { SaveButtons } from '../../ui/save.tsx';
import { EmptyState, QueryView, SkeletonLines } from '../../ui/states.tsx';
import { actionsColumn, type Column, Table } from '../../ui/table.tsx';
import { paths } from '../../util/paths.ts';
import { useGo, useRouteParams } from '../../util/route.ts';
import { formatRelative } from '../../util/time.ts';
import { AppForm } from './oauth2-app-form.tsx';

const refetchApps = () =>
  Promise.all(
    ['GET /oauth2-provider/apps', 'GET /oauth2-provider/apps/{app}'].map((key) =>
      queryClient.invalidateQueries({ queryKey: [key] }),
    ),
  );

export default function OAuth2AppPage() {
  const { app: id } = useRouteParams<'app'>();
  const app = useQuery(apiQuery('GET /oauth2-provider/apps/{app}', [], { params: { app: id } }));
  return (
    <SidebarPage title={app.data?.name ?? 'OAuth2 app'} area="OAuth2 apps" narrow>
      <QueryView query={app} loading={<SkeletonLines lines={8} />}>
        {(data) => (
          <>
            <Endpoints app={data} />
            <Secrets id={id} />
            <Section title="App">
              <AppForm
                key={JSON.stringify(data)}
                saved={data}
                onSave={async ({ name, callback_url, icon }) => {
                  const body = { name, callback_url, icon };
                  await call('PUT /oauth2-provider/apps/{app}', { params: { app: id }, body });
                  await refetchApps();
                }}
                actions={({ changed, complete, pending, discard }) => (
                  <SaveButtons
                    changed={changed}
                    pending={pending}
                    problem={complete ? undefined : 'Enter a name and a callback URL.'}
                    onDiscard={discard}
                  />
                )}
              />
            </Section>
            <Deletion app={data} />
          </>
        )}
      </QueryView>
    </SidebarPage>
  );
}

function Endpoints({ app: { id, endpoints } }: { app: OAuth2ProviderApp }) {
  const code = (text: string) => <code className="wrap-anywhere font-mono text-sm">{text}</code>;
  return (
    <Section title="For the app's configuration">
      <Facts
        facts={[
          ['Client ID', code(id)],
          ['Authorization URL', code(endpoints.authorization)],
          ['Token URL', code(endpoints.token)],
          ['Revocation URL', code(endpoints.token_revoke)],
        ]}
      />
    </Section>
  );
}

function Secrets({ id }: { id: string }) {
  const params = { app: id };
  const secrets = useQuery(apiQuery('GET /oauth2-provider/apps/{app}/secrets', [], { params }));
  const [deleted, setDeleted] = useState<OAuth2ProviderAppSecret>();
  const create = useChange(() => call('POST /oauth2-provider/apps/{app}/secrets', { params }), {
    refetch: ['GET /oauth2-provider/apps/{app}/secrets'],
  });
  const columns: Column<OAuth2ProviderAppSecret>[] = [
    {
      name: 'Secret',
      cell: ({ client_secret_truncated: end }) => <code className="font-mono text-sm">…{end}</code>,
    },
    {
      name: 'Last used',
      cell: ({ last_used_at: at }) => <span className="text-muted">{at ? formatRelative(at) : 'Never'}</span>,
    },
    actionsColumn((secret) => (
      <IconButton
        icon={Trash2}
        size="sm"
        label={`Delete the secret that ends with ${secret.client_secret_truncated}`}
        onClick={() => setDeleted(secret)}
      />
    )),
  ];
  const table = (rows: OAuth2ProviderAppSecret[] | undefined) => (
    <Table
      label="Client secrets"
      columns={columns}
      rows={rows}
      rowKey={(secret) => secret.id}
      empty={
        <EmptyState icon={KeyRound} title="No secrets">
          The app proves itself with a secret. Create one and give it to the people who run the app.
        </EmptyState>
      }
    />
  );
  return (
    <>
      <Section
        flush
        title="Client secrets"
        actions={
          <Button icon={Plus} pending={create.isPending} onClick={() => create.mutate()}>
            Create secret
          </Button>
        }
      >
        {create.data && (
          <div className="flex flex-col gap-3 border-line border-b p-4" role="status">
            <CodeLine code={create.data.client_secret_full} label="Copy the secret" wrap />
            <Notice tone="warn" title="Copy the secret now. It is not shown again." />
          </div>
        )}
        <QueryView query={secrets} loading={table(undefined)}>
          {table}
        </QueryView>
      </Section>
      <ConfirmDialog
        open={deleted !== undefined}
        onClose={() => setDeleted(undefined)}
        title={`Delete the secret that ends with ${deleted?.client_secret_truncated ?? ''}?`}
        action="Delete secret"
        danger
        onConfirm={async () => {
          const route = { ...params, secretID: deleted!.id };
          await call('DELETE /oauth2-provider/apps/{app}/secrets/{secretID}', { params: route });
          await secrets.refetch();
        }}
      >
        Tokens that the app got with it end immediately, and people must let the app in again.
      </ConfirmDialog>
    </>
  );
}

function Deletion({ app }: { app: OAuth2ProviderApp }) {
  const go = useGo();
  const [asked, setAsked] = useState(false);
  return (
    <Section
      danger
      title="Delete this app"
      description="It is signed out for everybody."
      actions={
        <Button look="danger" onClick={() => setAsked(true)}>
          Delete app
        </Button>
      }
    >
      <ConfirmDialog
        open={asked}
        onClose={() => setAsked(false)}
        title={`Delete ${app.name}?`}
        action="Delete app"
        danger
        typeToConfirm={app.name}
        onConfirm={async () => {
          await call('DELETE /oauth2-provider/apps/{app}', { params: { app: app.id } });
          go(paths.oauth2Apps());
          await queryClient.invalidateQueries({ queryKey: ['GET /oauth2-provider/apps'] });
        }}
      >
        Its secrets and all tokens that it has end immediately. This cannot be undone.
      </ConfirmDialog>
    </Section>
  );
}
