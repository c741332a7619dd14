import { useQuery } from '@tanstack/react-query';
import { Trash2 } from 'lucide-react';
import { useState } from 'react';
import { call } from '../../../api/client.ts';
import { fieldError } from '../../../api/errors.ts';
import { workspacePermissions } from '../../../api/permissions.ts';
import { useChange } from '../../../api/query.ts';
import { Button } from '../../../ui/button.tsx';
import { Field, Input } from '../../../ui/field.tsx';
import { Form } from '../../../ui/form.tsx';
import { Section } from '../../../ui/page.tsx';
import { SaveButtons } from '../../../ui/save.tsx';
import { Select } from '../../../ui/select.tsx';
import { toast } from '../../../ui/toast.tsx';
import { paths } from '../../../util/paths.ts';
import { useGo } from '../../../util/route.ts';
import DeleteDialog from '../delete-dialog.tsx';
import { useCurrentWorkspace } from '../detail/current.ts';
import { patchCached, refreshWorkspace } from '../queries.ts';
import { isActive } from '../status.ts';

/** The name of a workspace, how it is updated, and its end. */
export default function GeneralSettingsPage() {
  const workspace = useCurrentWorkspace();
  const go = useGo();
  const may = useQuery(workspacePermissions(workspace)).data;
  const [name, setName] = useState(workspace.name);
  const [deleting, setDeleting] = useState(false);
  const params = { workspace: workspace.id };
  const rename = useChange(() => call('PATCH /workspaces/{workspace}', { params, body: { name } }), {
    ownError: true,
    onSuccess: () => go(paths.workspaceSettings({ ...workspace, name }), { replace: true }),
  });
  const updates = useChange(
    async (automatic_updates: 'always' | 'never') => {
      patchCached(workspace.id, (old) => ({ ...old, automatic_updates }));
      await call('PUT /workspaces/{workspace}/autoupdates', { params, body: { automatic_updates } });
      toast({ title: 'Saved.' });
    },
    { onSettled: () => void refreshWorkspace(workspace.id) },
  );
  return (
    <>
      <Section title="Name">
        <Form
          onSubmit={() => rename.mutate()}
          error={rename.error}
          fields={['name']}
          actions={
            <SaveButtons
              name="Rename"
              changed={name !== workspace.name}
              problem={name === '' ? 'Enter a name.' : undefined}
              pending={rename.isPending}
              onDiscard={() => setName(workspace.name)}
            />
          }
        >
          <Field
            label="Workspace name"
            error={fieldError(rename.error, 'name')}
            help={
              workspace.allow_renames
                ? 'Templates that use the name may create new resources and destroy the old ones at the next build.'
                : 'Renaming is not permitted on this server.'
            }
          >
            <Input
              value={name}
              maxLength={32}
              disabled={!workspace.allow_renames || !may?.update}
              onChange={(event) => setName(event.target.value)}
            />
          </Field>
        </Form>
      </Section>
      <Section title="Updates" description="When a new version of the template applies to this workspace.">
        {workspace.template_require_active_version ? (
          <p className="text-muted">The template requires its newest version at each start.</p>
        ) : (
          <Select
            label="Updates"
            value={workspace.automatic_updates}
            disabled={!may?.update || updates.isPending}
            onChange={(value) => updates.mutate(value as 'always' | 'never')}
            options={[
              { value: 'never', label: 'By hand', help: 'It keeps its version until you update it.' },
              { value: 'always', label: 'At each start', help: 'It starts with the newest version.' },
            ]}
          />
        )}
      </Section>
      {may?.delete && (
        <Section
          danger
          title="Delete this workspace"
          description="Destroys its resources. Files that are only in this workspace are lost."
          actions={
            <Button
              look="danger"
              icon={Trash2}
              disabled={isActive(workspace.latest_build.status)}
              onClick={() => setDeleting(true)}
            >
              Delete
            </Button>
          }
        >
          {isActive(workspace.latest_build.status) ? (
            <p className="text-muted">Wait for the build that is under way, or cancel it.</p>
          ) : undefined}
        </Section>
      )}
      {deleting && (
        <DeleteDialog
          workspace={workspace}
          onClose={() => setDeleting(false)}
          onDeleted={() => go(paths.workspace(workspace))}
        />
      )}
    </>
  );
}
