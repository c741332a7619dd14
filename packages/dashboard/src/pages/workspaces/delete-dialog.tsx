import type { Workspace, WorkspaceResource } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useOrganizationPermissions } from '../../api/permissions.ts';
import { apiQuery } from '../../api/query.ts';
import { Checkbox } from '../../ui/checkbox.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { SkeletonLines } from '../../ui/states.tsx';
import { orderBuild } from './queries.ts';

/** Asks before a workspace is deleted, and lists what is destroyed with it. */
export default function DeleteDialog({
  workspace,
  onClose,
  onDeleted,
}: {
  workspace: Workspace;
  onClose: () => void;
  onDeleted?: () => void;
}) {
  const [orphan, setOrphan] = useState(false);
  const may = useOrganizationPermissions(workspace.organization_id);
  const resources = useQuery(
    apiQuery('GET /workspacebuilds/{workspacebuild}/resources', [], {
      params: { workspacebuild: workspace.latest_build.id },
    }),
  ).data;
  return (
    <ConfirmDialog
      open
      danger
      onClose={onClose}
      title={`Delete ${workspace.name}?`}
      action="Delete"
      typeToConfirm={workspace.name}
      onConfirm={async () => {
        await orderBuild(workspace.id, { transition: 'delete', ...(orphan ? { orphan } : {}) });
        onDeleted?.();
      }}
    >
      <p>This cannot be undone. Files that are only in this workspace are lost.</p>
      {resources === undefined ? (
        <SkeletonLines lines={2} />
      ) : (
        <DestroyedResources resources={resources} kept={orphan} />
      )}
      {may.updateTemplates && (
        <Checkbox
          checked={orphan}
          onChange={setOrphan}
          label="Keep the resources"
          help="Deletes the workspace without destroying its resources. Use it only if they are gone already or Terraform cannot destroy them."
        />
      )}
    </ConfirmDialog>
  );
}

function DestroyedResources({ resources, kept }: { resources: readonly WorkspaceResource[]; kept: boolean }) {
  if (kept) return <p>Terraform does not run. Delete these resources yourself if they still exist.</p>;
  if (resources.length === 0) return <p className="text-muted">The workspace has no known resources.</p>;
  return (
    <div>
      <p className="mb-1.5">These resources are destroyed:</p>
      <ul className="max-h-48 overflow-y-auto rounded-md border border-line bg-sunken px-3 py-2 font-mono text-sm">
        {resources.map((resource) => (
          <li key={resource.id} className="wrap-anywhere">
            {resource.type}.{resource.name}
          </li>
        ))}
      </ul>
    </div>
  );
}
