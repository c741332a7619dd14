import { useQuery } from '@tanstack/react-query';
import { useLocation } from '@tanstack/react-router';
import { useMe } from '../api/me.ts';
import { workspacePermissions } from '../api/permissions.ts';
import { isPermitted } from '../pages/workspaces/actions.tsx';
import { workspaceByName } from '../pages/workspaces/queries.ts';
import { actionsOf, agentsOf, isReachable } from '../pages/workspaces/status.ts';

/** The workspace of the page behind the palette, with its actions and its agent for this person. */
export function useWorkspaceHere() {
  const me = useMe();
  const { pathname } = useLocation();
  const [, owner = '', name = ''] = /^\/@([^/]+)\/([^/.]+)/.exec(pathname) ?? [];
  const workspace = useQuery({ ...workspaceByName(decodeURIComponent(owner), name), enabled: name !== '' }).data;
  const may = useQuery({
    ...workspacePermissions(workspace ?? { id: '', owner_id: '', organization_id: '' }),
    enabled: workspace !== undefined,
  }).data;
  if (!workspace || !may) return undefined;
  return {
    me,
    workspace,
    may,
    actions: actionsOf(workspace).filter((action) => isPermitted(action, may)),
    agent: may.ssh ? agentsOf(workspace.latest_build).find(isReachable) : undefined,
  };
}

export type WorkspaceHere = NonNullable<ReturnType<typeof useWorkspaceHere>>;
