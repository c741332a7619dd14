import type { Group } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { useOrganizationPermissions } from '../../api/permissions.ts';
import { queryClient, useChange } from '../../api/query.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Button } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Form } from '../../ui/form.tsx';
import { Link } from '../../ui/link.tsx';
import { Section } from '../../ui/page.tsx';
import { SaveButtons } from '../../ui/save.tsx';
import { QueryView } from '../../ui/states.tsx';
import { toast } from '../../ui/toast.tsx';
import { paths } from '../../util/paths.ts';
import { useGo, useRouteParams } from '../../util/route.ts';
import { groupNotFound, groupQuery, groupTitle, isEveryone } from './group-data.ts';
import { GROUP_FIELDS, GroupFields, groupBody } from './group-fields.tsx';
import { useOrganization } from './use-organization.ts';

export default function GroupSettingsPage() {
  const organization = useOrganization();
  const { group: name } = useRouteParams<'group'>();
  const group = useQuery(groupQuery(organization.id, name));
  return (
    <QueryView query={group} isPage notFound={groupNotFound(organization.name)}>
      {(data) => <GroupSettings key={data.id} group={data} />}
    </QueryView>
  );
}

function GroupSettings({ group }: { group: Group }) {
  const organization = useOrganization();
  const may = useOrganizationPermissions(organization.id);
  const saved = { ...group, quota_allowance: String(group.quota_allowance) };
  const [values, setValues] = useState(saved);
  const [deleting, setDeleting] = useState(false);
  const go = useGo();
  const everyone = isEveryone(group);
  const body = groupBody({
    name: values.name,
    display_name: values.display_name,
    avatar_url: values.avatar_url,
    quota_allowance: values.quota_allowance,
  });
  const refetch = () => queryClient.invalidateQueries({ queryKey: ['GET /organizations/{organization}/groups'] });
  const save = useChange(() => call('PATCH /groups/{group}', { params: { group: group.id }, body: body! }), {
    ownError: true,
    async onSuccess(answer) {
      queryClient.setQueryData(groupQuery(organization.id, answer.name).queryKey, answer);
      await refetch();
      toast({ title: 'The group was changed.' });
      go(paths.group(organization.name, answer.name));
    },
  });
  return (
    <SidebarPage
      title={`Settings of ${groupTitle(group)}`}
      area={organization.display_name || organization.name}
      description={<Link to={paths.group(organization.name, group.name)}>Back to the group</Link>}
      narrow
    >
      <Section>
        <Form
          onSubmit={() => body && save.mutate()}
          error={save.error}
          fields={GROUP_FIELDS}
          actions={
            <SaveButtons
              changed={GROUP_FIELDS.some((field) => values[field] !== saved[field])}
              problem={values.name ? (body ? undefined : 'The allowance is not valid.') : 'Enter a name.'}
              pending={save.isPending}
              onDiscard={() => setValues(saved)}
            />
          }
        >
          <GroupFields
            values={values}
            onChange={(next) => setValues({ ...values, ...next })}
            error={save.error}
            everyone={everyone}
          />
        </Form>
      </Section>
      {may.deleteGroups && !everyone && (
        <Section
          title="Delete this group"
          danger
          description="Its members lose its permissions on templates and its allowance. Their accounts and workspaces stay."
          actions={
            <Button look="danger" onClick={() => setDeleting(true)}>
              Delete group
            </Button>
          }
        >
          <ConfirmDialog
            open={deleting}
            onClose={() => setDeleting(false)}
            title={`Delete ${groupTitle(group)}?`}
            action="Delete group"
            danger
            typeToConfirm={group.name}
            onConfirm={async () => {
              await call('DELETE /groups/{group}', { params: { group: group.id } });
              toast({ title: 'The group was deleted.' });
              go(paths.groups(organization.name), { replace: true });
              await refetch();
            }}
          >
            This cannot be undone.
          </ConfirmDialog>
        </Section>
      )}
    </SidebarPage>
  );
}
