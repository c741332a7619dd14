import { useSuspenseQuery } from '@tanstack/react-query';
import { call } from '../../api/client.ts';
import { organizationsQuery } from '../../api/me.ts';
import { useSitePermissions } from '../../api/permissions.ts';
import { apiQuery, queryClient } from '../../api/query.ts';
import { NoPermission } from '../../layouts/problems.tsx';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { SyncForm } from './sync-form.tsx';

const SETTINGS = 'GET /settings/idpsync/organization';

/** How claims of the identity provider become memberships of organizations. */
export default function OrganizationSyncPage() {
  const may = useSitePermissions();
  if (may.updateIdpSync === false) return <NoPermission />;
  return (
    <SidebarPage
      title="Organization sync"
      area="Deployment"
      description="Organizations of people who sign in with OpenID Connect follow the claims of the provider."
      narrow
    >
      <OrganizationSync />
    </SidebarPage>
  );
}

function OrganizationSync() {
  const settings = useSuspenseQuery(apiQuery(SETTINGS, [])).data;
  const organizations = useSuspenseQuery(organizationsQuery).data;
  return (
    <SyncForm
      key={JSON.stringify(settings)}
      saved={{ field: settings.field, mapping: settings.mapping, toggle: settings.organization_assign_default }}
      what="organization"
      targets={organizations.map(({ id, name, display_name }) => ({ value: id, label: display_name || name }))}
      fieldHelp="People then are members of exactly the organizations that the claim gives. Empty: organizations are not synced."
      toggle={{
        label: 'Keep everyone in the default organization',
        help: 'Otherwise people whose claims give no organization are members of none.',
      }}
      onSave={async ({ field, mapping, toggle }) => {
        await call('PATCH /settings/idpsync/organization', {
          body: {
            field,
            mapping: mapping as Record<string, string[]>,
            organization_assign_default: toggle === true,
          },
        });
        await queryClient.invalidateQueries({ queryKey: [SETTINGS] });
      }}
    />
  );
}
