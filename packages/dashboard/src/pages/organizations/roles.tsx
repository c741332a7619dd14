import type { AssignableRoles, SlimRole } from '@ropewalk/contract';
import { ownValue } from '@ropewalk/kit/own-value';
import { type UseQueryResult, useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { errorText } from '../../api/errors.ts';
import { Badge } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { Checkbox } from '../../ui/checkbox.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Notice } from '../../ui/notice.tsx';
import { QueryView } from '../../ui/states.tsx';

export const ROLE_HELP: Readonly<Record<string, string>> = {
  owner: 'Administers everything on this server.',
  'user-admin': 'Manages users and members of organizations.',
  'template-admin': 'Manages all templates and provisioners.',
  auditor: 'Reads users, templates, settings of the server and the audit log.',
  'organization-admin': 'Administers everything in this organization.',
  'organization-user-admin': 'Manages the members of this organization.',
  'organization-template-admin': 'Manages templates and provisioners of this organization.',
  'organization-auditor': 'Reads members, templates and the audit log of this organization.',
  'organization-workspace-access': 'Creates workspaces in this organization and uses them.',
  'organization-workspace-creation-ban': 'Cannot create or delete workspaces in this organization.',
};

/** Chooses the roles of a person. Roles that the viewer may not assign stay as they are. */
export function RolesDialog({
  person,
  current,
  roles,
  onSave,
  onClose,
}: {
  person: string;
  current: readonly SlimRole[];
  roles: UseQueryResult<AssignableRoles[]>;
  onSave: (names: string[]) => Promise<unknown>;
  onClose: () => void;
}) {
  const [chosen, setChosen] = useState(() => new Set(current.map(({ name }) => name)));
  const same = chosen.size === current.length && current.every(({ name }) => chosen.has(name));
  const save = useMutation({
    mutationFn: () => onSave([...chosen]),
    onSuccess: onClose,
    meta: { ownError: true },
  });
  return (
    <Dialog
      open
      onClose={onClose}
      title={`Roles of ${person}`}
      description="Without a role, a person is a member."
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" pending={save.isPending} disabled={!roles.data || same} onClick={() => save.mutate()}>
            Save
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-3">
        <QueryView query={roles}>
          {(all) => (
            <RoleChoices
              roles={all.filter(({ name }) => name !== 'member' && name !== 'organization-member')}
              chosen={chosen}
              onChange={setChosen}
            />
          )}
        </QueryView>
        {save.isError && <Notice tone="bad" {...errorText(save.error)} />}
      </div>
    </Dialog>
  );
}

/** A checkbox for each role. Those that the viewer may not assign cannot be changed. */
export function RoleChoices({
  roles,
  chosen,
  onChange,
}: {
  roles: readonly AssignableRoles[];
  chosen: ReadonlySet<string>;
  onChange: (chosen: Set<string>) => void;
}) {
  return roles.map((role) => (
    <Checkbox
      key={role.name}
      label={role.display_name || role.name}
      help={ownValue(ROLE_HELP, role.name)}
      disabled={!role.assignable}
      checked={chosen.has(role.name)}
      onChange={(checked) => {
        const next = new Set(chosen);
        if (checked) next.add(role.name);
        else next.delete(role.name);
        onChange(next);
      }}
    />
  ));
}

/** A person's roles in a list. */
export function RoleBadges({ roles }: { roles: readonly SlimRole[] }) {
  if (roles.length === 0) return <span className="text-muted">Member</span>;
  return (
    <span className="flex flex-wrap gap-1">
      {roles.map((role) => (
        <Badge key={role.name} tone={/(^owner|-admin)$/.test(role.name) ? 'accent' : 'neutral'}>
          {role.display_name || role.name}
        </Badge>
      ))}
    </span>
  );
}
