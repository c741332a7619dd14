import { useState } from 'react';
import { call } from '../../api/client.ts';
import { useChange } from '../../api/query.ts';
import { Button, LinkButton } from '../../ui/button.tsx';
import { Form } from '../../ui/form.tsx';
import { Page, Section } from '../../ui/page.tsx';
import { paths } from '../../util/paths.ts';
import { useGo } from '../../util/route.ts';
import { ORGANIZATION_FIELDS, OrganizationFields } from './fields.tsx';

export default function NewOrganizationPage() {
  const [values, setValues] = useState({ name: '', display_name: '', description: '', icon: '' });
  const go = useGo();
  const create = useChange(() => call('POST /organizations', { body: values }), {
    ownError: true,
    refetch: ['GET /organizations'],
    onSuccess: (made) => go(paths.organization(made.name)),
  });
  return (
    <Page
      title="Create an organization"
      description="An organization has its own members, templates, workspaces and provisioners."
      width="narrow"
    >
      <Section>
        <Form
          onSubmit={() => create.mutate()}
          error={create.error}
          fields={ORGANIZATION_FIELDS}
          actions={
            <>
              <Button type="submit" look="primary" pending={create.isPending} disabled={!values.name}>
                Create organization
              </Button>
              <LinkButton to="/organizations">Cancel</LinkButton>
            </>
          }
        >
          <OrganizationFields values={values} onChange={setValues} error={create.error} />
        </Form>
      </Section>
    </Page>
  );
}
