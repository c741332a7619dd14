import type { OAuth2ProviderApp } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { AppWindow } from 'lucide-react';
import { useState } from 'react';
import { useMe } from '../../api/me.ts';
import { apiQuery } from '../../api/query.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Avatar } from '../../ui/avatar.tsx';
import { Button } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Section } from '../../ui/page.tsx';
import { EmptyState, QueryView } from '../../ui/states.tsx';
import { actionsColumn, type Column, Table } from '../../ui/table.tsx';
import { hostOf } from '../../util/host.ts';

/** Ends all that an app may do. The route is a part of the protocol, outside of the API. */
async function endAccess(id: string): Promise<void> {
  const answer = await fetch(`/oauth2/tokens?${new URLSearchParams({ client_id: id })}`, { method: 'DELETE' });
  if (!answer.ok) throw new Error('Could not end the access. Reload the page and try again.');
}

export default function OAuth2AppsPage() {
  const me = useMe();
  const apps = useQuery(apiQuery('GET /oauth2-provider/apps', [], { query: { user_id: me.id } }));
  const [ended, setEnded] = useState<OAuth2ProviderApp>();
  const columns: Column<OAuth2ProviderApp>[] = [
    {
      name: 'App',
      cell: (app) => (
        <span className="flex min-w-0 items-center gap-3">
          <Avatar square name={app.name} src={app.icon} />
          <span className="flex min-w-0 flex-col">
            <span className="truncate font-medium" title={app.name}>
              {app.name}
            </span>
            <span className="truncate text-muted text-sm">{hostOf(app.callback_url)}</span>
          </span>
        </span>
      ),
    },
    {
      ...actionsColumn<OAuth2ProviderApp>((app) => (
        <Button size="sm" onClick={() => setEnded(app)} aria-label={`End access of ${app.name}`}>
          End access
        </Button>
      )),
      width: '7rem',
    },
  ];
  const table = (rows: OAuth2ProviderApp[] | undefined) => (
    <Table
      label="OAuth2 apps"
      columns={columns}
      rows={rows}
      rowKey={({ id }) => id}
      empty={
        <EmptyState icon={AppWindow} title="No apps">
          Apps that you let in, such as editors and portals, appear here. Each can act as you within its scopes.
        </EmptyState>
      }
    />
  );
  return (
    <SidebarPage title="OAuth2 apps" area="Settings" description="Apps that act as you on this server.">
      <Section flush>
        <QueryView query={apps} loading={table(undefined)}>
          {table}
        </QueryView>
      </Section>
      <ConfirmDialog
        open={ended !== undefined}
        onClose={() => setEnded(undefined)}
        title={`End the access of ${ended?.name ?? ''}?`}
        action="End access"
        danger
        onConfirm={async () => {
          await endAccess(ended!.id);
          await apps.refetch();
        }}
      >
        It is signed out everywhere. You can let it in again from the app.
      </ConfirmDialog>
    </SidebarPage>
  );
}
