import { useState } from 'react';
import { call } from '../../api/client.ts';
import { useChange } from '../../api/query.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Button, LinkButton } from '../../ui/button.tsx';
import { Form } from '../../ui/form.tsx';
import { Section } from '../../ui/page.tsx';
import { paths } from '../../util/paths.ts';
import { useGo } from '../../util/route.ts';
import { GROUP_FIELDS, GroupFields, groupBody } from './group-fields.tsx';
import { useOrganization } from './use-organization.ts';

export default function NewGroupPage() {
  const organization = useOrganization();
  const [values, setValues] = useState({ name: '', display_name: '', avatar_url: '', quota_allowance: '0' });
  const go = useGo();
  const body = groupBody(values);
  const create = useChange(
    () => call('POST /organizations/{organization}/groups', { params: { organization: organization.id }, body: body! }),
    {
      ownError: true,
      refetch: ['GET /organizations/{organization}/groups'],
      onSuccess: (group) => go(paths.group(organization.name, group.name)),
    },
  );
  return (
    <SidebarPage title="Create a group" area={organization.display_name || organization.name} narrow>
      <Section>
        <Form
          onSubmit={() => body && values.name && create.mutate()}
          error={create.error}
          fields={GROUP_FIELDS}
          actions={
            <>
              <Button type="submit" look="primary" pending={create.isPending} disabled={!values.name || !body}>
                Create group
              </Button>
              <LinkButton to={paths.groups(organization.name)}>Cancel</LinkButton>
            </>
          }
        >
          <GroupFields values={values} onChange={setValues} error={create.error} />
        </Form>
      </Section>
    </SidebarPage>
  );
}
