import type { Organization } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { useChange } from '../../api/query.ts';
import { Form } from '../../ui/form.tsx';
import { Section } from '../../ui/page.tsx';
import { SaveButtons } from '../../ui/save.tsx';
import { QueryView } from '../../ui/states.tsx';
import { toast } from '../../ui/toast.tsx';
import { RoleChoices } from './roles.tsx';
import { rolesQuery } from './roles-query.ts';

/** The roles that every member of an organization has. */
export function DefaultRolesSetting({ organization }: { organization: Organization }) {
  const roles = useQuery(rolesQuery(organization.id));
  const saved = organization.default_org_member_roles;
  const [chosen, setChosen] = useState<ReadonlySet<string>>(() => new Set(saved));
  const save = useChange(
    () =>
      call('PATCH /organizations/{organization}', {
        params: { organization: organization.id },
        body: { default_org_member_roles: [...chosen] },
      }),
    {
      ownError: true,
      refetch: ['GET /organizations'],
      onSuccess: () => toast({ title: 'The default roles were changed.' }),
    },
  );
  return (
    <Section
      title="Default roles"
      description="All members have these roles, also those who join later. A change applies immediately."
    >
      <Form
        onSubmit={() => save.mutate()}
        error={save.error}
        actions={
          <SaveButtons
            changed={chosen.size !== saved.length || saved.some((name) => !chosen.has(name))}
            pending={save.isPending}
            onDiscard={() => setChosen(new Set(saved))}
          />
        }
      >
        <QueryView query={roles}>
          {(all) => (
            <RoleChoices
              roles={all.filter(({ name, built_in: builtIn }) => builtIn && name !== 'organization-member')}
              chosen={chosen}
              onChange={setChosen}
            />
          )}
        </QueryView>
      </Form>
    </Section>
  );
}
