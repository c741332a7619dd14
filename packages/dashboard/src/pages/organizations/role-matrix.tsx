import { PERMISSIONS, type PermissionResource } from '@ropewalk/contract/permissions';
import { Checkbox } from '../../ui/checkbox.tsx';
import { actionName, capital } from '../../util/permission-names.ts';
import { type Grant, grantOf } from './role-grants.ts';

const RESOURCES: Partial<Record<PermissionResource, { name: string; help: string }>> = {
  workspace: { name: 'Workspaces', help: 'Of all members. Everyone may do everything with their own.' },
  workspace_dormant: { name: 'Dormant workspaces', help: 'Workspaces that nobody has used for a long time.' },
  template: { name: 'Templates', help: 'All of them, whatever their permissions say.' },
  file: { name: 'Files', help: 'The sources of templates.' },
  organization: { name: 'Organization', help: 'Its name, picture and description.' },
  organization_member: { name: 'Members', help: 'Who belongs to the organization.' },
  group: { name: 'Groups', help: 'Their settings and allowances.' },
  group_member: { name: 'Group members', help: 'Who is in which group.' },
  assign_org_role: { name: 'Roles', help: 'Built-in and custom roles of members.' },
  idpsync_settings: { name: 'Identity provider sync', help: 'How groups and roles follow the identity provider.' },
  provisioner_daemon: { name: 'Provisioners', help: 'Daemons and their keys.' },
  provisioner_jobs: { name: 'Provisioner jobs', help: 'The queue of builds and imports.' },
  audit_log: { name: 'Audit log', help: 'Who changed what in the organization.' },
  connection_log: { name: 'Connection log', help: 'Who connected to which workspace.' },
};

/** Chooses what a role grants: a row for each type of resource, with its actions. */
export function RoleMatrix({
  rows,
  grants,
  onChange,
  mayGrant,
}: {
  rows: readonly PermissionResource[];
  grants: ReadonlySet<Grant>;
  /** Absent: only shows the role. */
  onChange?: (grants: Set<Grant>) => void;
  /** Whether the person has the permission, and so may give it. */
  mayGrant: (grant: Grant) => boolean;
}) {
  const set = (changed: readonly Grant[], checked: boolean) => {
    const next = new Set(grants);
    for (const grant of changed) {
      if (checked) next.add(grant);
      else next.delete(grant);
    }
    onChange?.(next);
  };
  return (
    <div className="flex flex-col">
      {rows.map((type) => {
        const { name, help } = RESOURCES[type] ?? { name: capital(type), help: undefined };
        const all = PERMISSIONS[type].map((action) => ({ action, grant: grantOf(type, action) }));
        const free = all.filter(({ grant }) => mayGrant(grant) || grants.has(grant)).map(({ grant }) => grant);
        const chosen = all.filter(({ grant }) => grants.has(grant)).length;
        return (
          <fieldset
            key={type}
            className="grid gap-x-6 gap-y-2 border-line border-b px-4 py-3 last:border-b-0 md:grid-cols-[15rem_1fr]"
          >
            <legend className="sr-only">{name}</legend>
            <Checkbox
              label={<span className="font-medium">{name}</span>}
              help={help}
              disabled={!onChange || free.length === 0}
              checked={chosen === 0 ? false : chosen === all.length ? true : 'indeterminate'}
              onChange={() => set(free, !free.every((grant) => grants.has(grant)))}
            />
            <div className="grid grid-cols-2 gap-x-4 gap-y-2 max-md:pl-6 sm:grid-cols-3 lg:grid-cols-4">
              {all.map(({ action, grant }) => (
                <Checkbox
                  key={action}
                  label={actionName(action)}
                  disabled={!onChange || (!mayGrant(grant) && !grants.has(grant))}
                  checked={grants.has(grant)}
                  onChange={(checked) => set([grant], checked)}
                />
              ))}
            </div>
          </fieldset>
        );
      })}
    </div>
  );
}
