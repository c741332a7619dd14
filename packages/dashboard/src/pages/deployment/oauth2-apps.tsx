import type { OAuth2ProviderApp } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { AppWindow, Plus } from 'lucide-react';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { apiQuery, makeChange } from '../../api/query.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Avatar } from '../../ui/avatar.tsx';
import { Button } from '../../ui/button.tsx';
import { Switch } from '../../ui/choice.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { RowLink } from '../../ui/link.tsx';
import { Section } from '../../ui/page.tsx';
import { EmptyState, QueryView } from '../../ui/states.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { hostOf } from '../../util/host.ts';
import { paths } from '../../util/paths.ts';
import { useGo } from '../../util/route.ts';
import { AppForm } from './oauth2-app-form.tsx';

const appsQuery = apiQuery('GET /oauth2-provider/apps', []);
const settingsQuery = apiQuery('GET /oauth2-provider/settings', []);

const COLUMNS: Column<OAuth2ProviderApp>[] = [
  {
    name: 'App',
    cell: (app) => (
      <span className="flex min-w-0 items-center gap-3">
        <Avatar square name={app.name} src={app.icon} />
        <RowLink to={paths.oauth2App(app.id)} className="truncate font-medium" title={app.name}>
          {app.name}
        </RowLink>
      </span>
    ),
  },
  {
    name: 'Returns to',
    wideOnly: true,
    cell: ({ callback_url }) => (
      <span className="truncate text-muted" title={callback_url}>
        {hostOf(callback_url)}
      </span>
    ),
  },
];

/** Apps that sign people in with this server. */
export default function OAuth2AppsPage() {
  const apps = useQuery(appsQuery);
  const [creating, setCreating] = useState(false);
  const create = (
    <Button look="primary" icon={Plus} onClick={() => setCreating(true)}>
      Create app
    </Button>
  );
  const table = (rows: OAuth2ProviderApp[] | undefined) => (
    <Table
      label="OAuth2 apps"
      columns={COLUMNS}
      rows={rows}
      rowKey={({ id }) => id}
      empty={
        <EmptyState icon={AppWindow} title="No OAuth2 apps" action={create}>
          Create one for a portal or an editor, so that people let it in instead of pasting a token.
        </EmptyState>
      }
    />
  );
  return (
    <SidebarPage
      title="OAuth2 apps"
      area="Deployment"
      description="Apps that sign people in with this server and act as them."
      actions={apps.data?.length !== 0 && create}
    >
      <Section flush>
        <QueryView query={apps} loading={table(undefined)}>
          {table}
        </QueryView>
      </Section>
      <Registration />
      {creating && <CreateDialog onClose={() => setCreating(false)} />}
    </SidebarPage>
  );
}

function Registration() {
  const settings = useQuery(settingsQuery);
  return (
    <Section
      title="Registration by apps"
      description="Lets editors and AI clients register themselves, without an administrator. Anyone who reaches this server can then add an app. People still decide whether to let it in, and see that nobody has checked it."
      actions={
        <Switch
          label="Let apps register themselves"
          checked={settings.data?.dynamic_client_registration_enabled ?? false}
          disabled={!settings.data}
          onChange={(next) =>
            makeChange(async () => {
              await call('PUT /oauth2-provider/settings', { body: { dynamic_client_registration_enabled: next } });
              await settings.refetch();
            })
          }
        />
      }
    />
  );
}

function CreateDialog({ onClose }: { onClose: () => void }) {
  const go = useGo();
  return (
    <Dialog open onClose={onClose} title="Create an app">
      <div className="pb-3">
        <AppForm
          inDialog
          saved={{ name: '', callback_url: '', icon: '' }}
          onSave={async (body) => {
            const { id } = await call('POST /oauth2-provider/apps', { body });
            go(paths.oauth2App(id));
          }}
          actions={({ complete, pending }) => (
            <>
              <Button onClick={onClose}>Cancel</Button>
              <Button type="submit" look="primary" pending={pending} disabled={!complete}>
                Create app
              </Button>
            </>
          )}
        />
      </div>
    </Dialog>
  );
}
