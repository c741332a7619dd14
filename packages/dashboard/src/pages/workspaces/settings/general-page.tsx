import { useQuery } from '@tanstack/react-query';
import { Trash2 } from 'lucide-react';
import { useState } from 'react';
import { call } from '../../../api/client.ts';
import { ApiError, errorText } from '../../../api/errors.ts';
import { workspacePermissions } from '../../../api/permissions.ts';
import { useChange } from '../../../api/query.ts';
import { Button } from '../../../ui/button.tsx';
import { Field, Input } from '../../../ui/field.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { Section } from '../../../ui/page.tsx';
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
  const rejected =
    rename.error instanceof ApiError ? rename.error.validations.find(({ field }) => field === 'name') : undefined;
  return (
    <>
      <Section title="Name">
        <form
          className="flex flex-col gap-4"
          onSubmit={(event) => {
            event.preventDefault();
            rename.mutate();
          }}
        >
          <Field
            label="Workspace name"
            error={rejected?.detail}
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
          {rename.error != null && !rejected && <Notice tone="bad" {...errorText(rename.error)} />}
          {workspace.allow_renames && (
            <div>
              <Button
                type="submit"
                look="primary"
                pending={rename.isPending}
                disabled={name === workspace.name || name === '' || !may?.update}
              >
                Rename
              </Button>
            </div>
          )}
        </form>
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
