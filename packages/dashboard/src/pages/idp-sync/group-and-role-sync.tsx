import { useSuspenseQuery } from '@tanstack/react-query';
import { call } from '../../api/client.ts';
import { useOrganizationPermissions } from '../../api/permissions.ts';
import { apiQuery, queryClient } from '../../api/query.ts';
import { NoPermission } from '../../layouts/problems.tsx';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { useSearchParams } from '../../util/route.ts';
import { groupsQuery, groupTitle, isEveryone } from '../organizations/group-data.ts';
import { rolesQuery } from '../organizations/roles-query.ts';
import { useOrganization } from '../organizations/use-organization.ts';
import { SyncForm } from './sync-form.tsx';

const GROUPS = 'GET /organizations/{organization}/settings/idpsync/groups';
const ROLES = 'GET /organizations/{organization}/settings/idpsync/roles';

/** How claims of the identity provider become groups and roles of an organization. */
export default function IdpSyncPage() {
  const organization = useOrganization();
  const may = useOrganizationPermissions(organization.id);
  const [{ tab = 'groups' }, setSearch] = useSearchParams();
  if (may.updateIdpSync === false) return <NoPermission />;
  return (
    <SidebarPage
      title="Identity sync"
      area={organization.display_name || organization.name}
      description="Groups and roles of members who sign in with OpenID Connect follow the claims of the provider."
      narrow
    >
      <Tabs
        label="What is synced"
        value={tab === 'roles' ? 'roles' : 'groups'}
        onChange={(value) => setSearch({ tab: value === 'groups' ? '' : value })}
        tabs={[
          { value: 'groups', name: 'Groups', content: <GroupSync organization={organization.id} /> },
          { value: 'roles', name: 'Roles', content: <RoleSync organization={organization.id} /> },
        ]}
      />
    </SidebarPage>
  );
}

function GroupSync({ organization }: { organization: string }) {
  const params = { organization };
  const settings = useSuspenseQuery(apiQuery(GROUPS, [], { params })).data;
  const groups = useSuspenseQuery(groupsQuery(organization)).data.filter((group) => !isEveryone(group));
  return (
    <SyncForm
      // what was saved is the new start
      key={JSON.stringify(settings)}
      saved={{
        field: settings.field,
        mapping: settings.mapping,
        filter: settings.regex_filter ?? '',
        toggle: settings.auto_create_missing_groups,
      }}
      organization={organization}
      what="group"
      targets={groups.map((group) => ({ value: group.id, label: groupTitle(group), claim: group.name }))}
      fieldHelp="For example groups. Members then are in exactly the groups that the claim gives. Empty: groups are not synced."
      toggle={{ label: 'Create missing groups', help: 'Creates a group for each name in the claim that has none.' }}
      onSave={async ({ field, mapping, filter, toggle }) => {
        await call('PATCH /organizations/{organization}/settings/idpsync/groups', {
          params,
          body: {
            field,
            mapping: mapping as Record<string, string[]>,
            regex_filter: filter || null,
            auto_create_missing_groups: toggle === true,
            ...(settings.legacy_group_name_mapping
              ? { legacy_group_name_mapping: settings.legacy_group_name_mapping }
              : {}),
          },
        });
        await queryClient.invalidateQueries({ queryKey: [GROUPS] });
      }}
    />
  );
}

function RoleSync({ organization }: { organization: string }) {
  const params = { organization };
  const settings = useSuspenseQuery(apiQuery(ROLES, [], { params })).data;
  const roles = useSuspenseQuery(rolesQuery(organization)).data;
  return (
    <SyncForm
      key={JSON.stringify(settings)}
      saved={{ field: settings.field, mapping: settings.mapping }}
      organization={organization}
      what="role"
      targets={roles.map(({ name, display_name }) => ({ value: name, label: display_name || name, claim: name }))}
      fieldHelp="For example roles. Members then have exactly the roles that the claim gives. Empty: roles are not synced."
      onSave={async ({ field, mapping }) => {
        await call('PATCH /organizations/{organization}/settings/idpsync/roles', {
          params,
          body: { field, mapping: mapping as Record<string, string[]> },
        });
        await queryClient.invalidateQueries({ queryKey: [ROLES] });
      }}
    />
  );
}
