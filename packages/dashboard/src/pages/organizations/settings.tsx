import { useState } from 'react';
import { call } from '../../api/client.ts';
import { useOrganizationPermissions } from '../../api/permissions.ts';
import { queryClient, useChange } from '../../api/query.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Button } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Form } from '../../ui/form.tsx';
import { Section } from '../../ui/page.tsx';
import { SaveButtons } from '../../ui/save.tsx';
import { toast } from '../../ui/toast.tsx';
import { paths } from '../../util/paths.ts';
import { useGo } from '../../util/route.ts';
import { DefaultRolesSetting } from './default-roles-setting.tsx';
import { ORGANIZATION_FIELDS, OrganizationFields } from './fields.tsx';
import { SharingSetting } from './sharing-setting.tsx';
import { useOrganization } from './use-organization.ts';

export default function OrganizationSettingsPage() {
  const organization = useOrganization();
  const may = useOrganizationPermissions(organization.id);
  const saved = {
    name: organization.name,
    display_name: organization.display_name,
    description: organization.description ?? '',
    icon: organization.icon ?? '',
  };
  const [values, setValues] = useState(saved);
  const [deleting, setDeleting] = useState(false);
  const go = useGo();
  const save = useChange(
    () => call('PATCH /organizations/{organization}', { params: { organization: organization.id }, body: values }),
    {
      ownError: true,
      async onSuccess(answer) {
        // before the list, in which the old address has no organization any more
        go(paths.organizationSettings(answer.name), { replace: true });
        await queryClient.invalidateQueries({ queryKey: ['GET /organizations'] });
        toast({ title: 'The organization was changed.' });
      },
    },
  );
  return (
    <SidebarPage title="Settings" area={organization.display_name || organization.name} narrow>
      <Section title="Profile">
        <Form
          onSubmit={() => save.mutate()}
          error={save.error}
          fields={ORGANIZATION_FIELDS}
          actions={
            <SaveButtons
              changed={ORGANIZATION_FIELDS.some((field) => values[field] !== saved[field])}
              problem={values.name ? undefined : 'Enter a name.'}
              pending={save.isPending}
              onDiscard={() => setValues(saved)}
            />
          }
        >
          <OrganizationFields values={values} onChange={setValues} error={save.error} />
        </Form>
      </Section>
      {may.updateOrganization && <DefaultRolesSetting organization={organization} />}
      {may.updateOrganization && <SharingSetting organization={organization} />}
      {may.deleteOrganization && !organization.is_default && (
        <Section
          title="Delete this organization"
          danger
          description="Its members lose access, and its provisioner keys stop working. It must have no templates and no workspaces."
          actions={
            <Button look="danger" onClick={() => setDeleting(true)}>
              Delete organization
            </Button>
          }
        >
          <ConfirmDialog
            open={deleting}
            onClose={() => setDeleting(false)}
            title={`Delete ${organization.display_name || organization.name}?`}
            action="Delete organization"
            danger
            typeToConfirm={organization.name}
            onConfirm={async () => {
              await call('DELETE /organizations/{organization}', { params: { organization: organization.id } });
              toast({ title: 'The organization was deleted.' });
              go('/organizations', { replace: true });
              await queryClient.invalidateQueries({ queryKey: ['GET /organizations'] });
            }}
          >
            This cannot be undone.
          </ConfirmDialog>
        </Section>
      )}
    </SidebarPage>
  );
}
