import type { AssignableRoles } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { SearchX, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { fieldError } from '../../api/errors.ts';
import { grantablePermissions, useOrganizationPermissions } from '../../api/permissions.ts';
import { queryClient, useChange } from '../../api/query.ts';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Button, LinkButton } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Field, Input } from '../../ui/field.tsx';
import { Form } from '../../ui/form.tsx';
import { Link } from '../../ui/link.tsx';
import { Section } from '../../ui/page.tsx';
import { SaveButtons } from '../../ui/save.tsx';
import { EmptyState, QueryView } from '../../ui/states.tsx';
import { toast } from '../../ui/toast.tsx';
import { paths } from '../../util/paths.ts';
import { useGo, useRouteParams } from '../../util/route.ts';
import { grantsOf, permissionsOf, rowsOf } from './role-grants.ts';
import { RoleMatrix } from './role-matrix.tsx';
import { rolesQuery } from './roles-query.ts';
import { useOrganization } from './use-organization.ts';

/** Creates a role, or shows and changes the one of the address. */
export default function RolePage() {
  const organization = useOrganization();
  const { role: name } = useRouteParams<'role'>();
  const roles = useQuery(rolesQuery(organization.id));
  if (name === undefined) return <RoleEditor key="new" />;
  return (
    <QueryView query={roles} isPage>
      {(all) => {
        const role = all.find((one) => one.name.toLowerCase() === name.toLowerCase());
        if (role) return <RoleEditor key={role.name} role={role} />;
        return (
          <EmptyState
            icon={SearchX}
            isPage
            title="Role not found"
            action={<LinkButton to={paths.roles(organization.name)}>All roles</LinkButton>}
          >
            It may have been deleted.
          </EmptyState>
        );
      }}
    </QueryView>
  );
}

/** What shows roles. */
const CHANGED = [
  'GET /organizations/{organization}/members/roles',
  'GET /organizations/{organization}/members',
] as const;
const FIELDS = ['name', 'display_name'] as const;

/** What the person has entered of a role, and whether that differs from the saved role. */
function useRoleDraft(role: AssignableRoles | undefined) {
  const saved = { name: role?.name ?? '', display_name: role?.display_name ?? '' };
  const before = grantsOf(role?.organization_permissions ?? []);
  const [values, setValues] = useState(saved);
  const [grants, setGrants] = useState(before);
  // a row stays where it is when its last permission is taken away
  const [rows] = useState(() => rowsOf(before));
  return {
    values,
    setValues,
    grants,
    setGrants,
    rows,
    changed: !(values.display_name === saved.display_name && grants.size === before.size && grants.isSubsetOf(before)),
    discard: () => {
      setValues(saved);
      setGrants(before);
    },
  };
}

/** Creates or changes the role, and then opens the list of roles. */
function useSaveRole(role: AssignableRoles | undefined, { values, grants }: ReturnType<typeof useRoleDraft>) {
  const organization = useOrganization();
  const go = useGo();
  return useChange(
    () => {
      const params = { organization: organization.id };
      const body = { ...values, organization_permissions: permissionsOf(grants) };
      return role
        ? call('PUT /organizations/{organization}/members/roles', { params, body })
        : call('POST /organizations/{organization}/members/roles', { params, body });
    },
    {
      ownError: true,
      refetch: CHANGED,
      onSuccess: (answer) => {
        toast({ title: role ? 'The role was changed.' : `The role ${answer.name} was created.` });
        go(paths.roles(organization.name));
      },
    },
  );
}

function RoleEditor({ role }: { role?: AssignableRoles }) {
  const organization = useOrganization();
  const may = useOrganizationPermissions(organization.id);
  const grantable = useQuery(grantablePermissions(organization.id)).data;
  const draft = useRoleDraft(role);
  const { values, grants, rows } = draft;
  const save = useSaveRole(role, draft);
  const editable = role ? !role.built_in && may.updateRoles === true : may.createRoles === true;
  const denies = role?.organization_permissions.some(({ negate }) => negate);
  return (
    <SidebarPage
      title={role ? nameOf(role) : 'Create a role'}
      area={organization.display_name || organization.name}
      description={
        <>
          <Link to={paths.roles(organization.name)}>Roles</Link>
          {role?.built_in && ' · Built-in roles cannot be changed.'}
          {denies && ' It takes permissions away, which other roles cannot give back.'}
        </>
      }
      actions={role && !role.built_in && may.deleteRoles && <DeleteRole role={role} />}
    >
      <Form
        onSubmit={() => editable && values.name && save.mutate()}
        error={save.error}
        fields={FIELDS}
        actions={
          editable &&
          (role ? (
            <SaveButtons changed={draft.changed} pending={save.isPending} onDiscard={draft.discard} />
          ) : (
            <>
              <Button type="submit" look="primary" pending={save.isPending} disabled={!values.name}>
                Create role
              </Button>
              <LinkButton to={paths.roles(organization.name)}>Cancel</LinkButton>
            </>
          ))
        }
      >
        {editable && (
          <NameFields values={values} onChange={draft.setValues} isNew={role === undefined} error={save.error} />
        )}
        <Section
          title="Permissions"
          description={
            editable
              ? 'In the whole organization. You can only give permissions that you have yourself.'
              : 'In the whole organization.'
          }
          actions={<span className="text-muted text-sm">{denies ? '' : `${countShown(rows, grants)} granted`}</span>}
          flush
        >
          <RoleMatrix
            rows={rows}
            grants={grants}
            mayGrant={(grant) => grantable?.has(grant) ?? false}
            {...(editable ? { onChange: draft.setGrants } : {})}
          />
        </Section>
      </Form>
    </SidebarPage>
  );
}

function NameFields({
  values,
  onChange,
  isNew,
  error,
}: {
  values: { name: string; display_name: string };
  onChange: (values: { name: string; display_name: string }) => void;
  isNew: boolean;
  /** Of the last attempt to save. */
  error: unknown;
}) {
  return (
    <Section>
      <div className="grid gap-4 sm:grid-cols-2">
        <Field
          label="Name"
          help={isNew ? 'Letters, digits and hyphens.' : 'The name of a role cannot be changed.'}
          error={fieldError(error, 'name')}
        >
          <Input
            value={values.name}
            maxLength={32}
            disabled={!isNew}
            onChange={(event) => onChange({ ...values, name: event.target.value })}
          />
        </Field>
        <Field label="Display name" help="What people see." error={fieldError(error, 'display_name')}>
          <Input
            value={values.display_name}
            maxLength={64}
            onChange={(event) => onChange({ ...values, display_name: event.target.value })}
          />
        </Field>
      </div>
    </Section>
  );
}

/** A button, with the dialog that asks first. */
function DeleteRole({ role }: { role: AssignableRoles }) {
  const organization = useOrganization();
  const go = useGo();
  const [asking, setAsking] = useState(false);
  return (
    <>
      <Button icon={Trash2} onClick={() => setAsking(true)}>
        Delete
      </Button>
      <ConfirmDialog
        open={asking}
        onClose={() => setAsking(false)}
        title={`Delete the role ${nameOf(role)}?`}
        action="Delete role"
        danger
        typeToConfirm={role.name}
        onConfirm={async () => {
          await call('DELETE /organizations/{organization}/members/roles/{roleName}', {
            params: { organization: organization.id, roleName: role.name },
          });
          toast({ title: 'The role was deleted.' });
          go(paths.roles(organization.name), { replace: true });
          await Promise.all(CHANGED.map((route) => queryClient.invalidateQueries({ queryKey: [route] })));
        }}
      >
        Members who have it lose its permissions.
      </ConfirmDialog>
    </>
  );
}

const nameOf = (role: AssignableRoles): string => role.display_name || role.name;

const countShown = (rows: readonly string[], grants: ReadonlySet<string>): number =>
  [...grants].filter((grant) => rows.includes(grant.split(':')[0]!)).length;
