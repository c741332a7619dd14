import type { Workspace } from '@ropewalk/contract';
import type { WorkspacePermissions } from '../../../api/permissions.ts';
import { isPermitted } from '../actions.tsx';
import { isActive } from '../status.ts';

export type BulkAction = 'start' | 'stop' | 'update' | 'delete';

/** What a bulk action does with one workspace: `skip` says why nothing happens. */
export type Plan = { does: string } | { skip: string };

/** What the person may do with a workspace. Undefined while it is not known: the server decides then. */
export type MayOf = (workspace: Workspace) => WorkspacePermissions | undefined;

export function mayOrder(action: BulkAction, workspace: Workspace, mayOf: MayOf): boolean {
  const may = mayOf(workspace);
  return may === undefined || isPermitted(action, may);
}

/** What will happen to a workspace, in words. */
export function planOf(action: BulkAction, workspace: Workspace, mayOf: MayOf): Plan {
  if (!mayOrder(action, workspace, mayOf)) return { skip: 'You may not do this' };
  const { latest_build: build, outdated, dormant_at: dormant } = workspace;
  if (build.status === 'deleted') return { skip: 'Deleted already' };
  if (isActive(build.status)) return { skip: 'A build is under way' };
  if (dormant && action !== 'delete') return { skip: 'Dormant: activate it first' };
  const runs = build.status === 'running';
  switch (action) {
    case 'start':
      if (runs) return { skip: 'Runs already' };
      return { does: outdated && workspace.template_require_active_version ? 'Updates and starts' : 'Starts' };
    case 'stop':
      return build.status === 'stopped' ? { skip: 'Stopped already' } : { does: 'Stops' };
    case 'update':
      if (!outdated) return { skip: 'Up to date' };
      return { does: runs ? 'Updates while it runs' : 'Updates and starts' };
    case 'delete':
      return { does: 'Is deleted with its resources' };
  }
}

/** The body of the build that a bulk action orders. */
export function bodyOf(action: BulkAction, workspace: Workspace) {
  if (action === 'stop' || action === 'delete') return { transition: action };
  const newest = action === 'update' || (workspace.outdated && workspace.template_require_active_version);
  return {
    transition: 'start' as const,
    ...(newest ? { template_version_id: workspace.template_active_version_id } : {}),
  };
}
