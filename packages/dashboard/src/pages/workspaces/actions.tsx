import type { Workspace } from '@ropewalk/contract';
import {
  CircleStop,
  CircleX,
  type LucideIcon,
  Play,
  RefreshCw,
  RotateCcw,
  RotateCw,
  Sunrise,
  Trash2,
} from 'lucide-react';
import { lazy, type ReactNode, Suspense, useState } from 'react';
import { call } from '../../api/client.ts';
import type { WorkspacePermissions } from '../../api/permissions.ts';
import { useChange } from '../../api/query.ts';
import { stopSoon } from './delayed-stop.ts';
import { orderBuild, orderRestart, refreshWorkspace } from './queries.ts';
import type { ActionName } from './status.ts';

const DeleteDialog = lazy(() => import('./delete-dialog.tsx'));
const UpdateDialog = lazy(() => import('./update-dialog.tsx'));

export const ACTIONS: Record<ActionName, { name: string; icon: LucideIcon }> = {
  start: { name: 'Start', icon: Play },
  stop: { name: 'Stop', icon: CircleStop },
  restart: { name: 'Restart', icon: RotateCw },
  update: { name: 'Update', icon: RefreshCw },
  cancel: { name: 'Cancel the build', icon: CircleX },
  retry: { name: 'Try again', icon: RotateCcw },
  activate: { name: 'Activate', icon: Sunrise },
  delete: { name: 'Delete', icon: Trash2 },
};

/** Does one thing with a workspace. Deleting and updating ask first, and a stop can be undone: `useWorkspaceActions`. */
export async function act(
  workspace: Workspace,
  action: Exclude<ActionName, 'delete' | 'update' | 'stop'>,
): Promise<void> {
  const { id, latest_build: build } = workspace;
  switch (action) {
    case 'start':
      await orderBuild(id, { transition: 'start' });
      return;
    case 'retry':
      await orderBuild(id, { transition: build.transition, template_version_id: build.template_version_id });
      return;
    case 'restart':
      await orderRestart(id);
      return;
    case 'cancel':
      await call('PATCH /workspacebuilds/{workspacebuild}/cancel', { params: { workspacebuild: build.id } });
      break;
    case 'activate':
      await call('PUT /workspaces/{workspace}/dormant', { params: { workspace: id }, body: { dormant: false } });
      break;
  }
  await refreshWorkspace(id);
}

export interface WorkspaceActions {
  /** Returns whether a dialog asks first. */
  run: (workspace: Workspace, action: ActionName) => boolean;
  /** The action under way. */
  pending: ActionName | undefined;
  /** Whether a dialog is open. */
  asking: boolean;
  /** Rendered once, next to the code that calls `run`. */
  dialogs: ReactNode;
}

/** The actions on workspaces, with the dialogs that some of them open. */
export function useWorkspaceActions({
  onDeleted,
  onClosed,
}: {
  onDeleted?: () => void;
  /** A dialog has closed. */
  onClosed?: () => void;
} = {}): WorkspaceActions {
  const [asked, setAsked] = useState<{ workspace: Workspace; action: 'delete' | 'update' }>();
  const [pending, setPending] = useState<ActionName>();
  const change = useChange(
    ({ workspace, action }: { workspace: Workspace; action: Exclude<ActionName, 'delete' | 'update' | 'stop'> }) => {
      setPending(action);
      return act(workspace, action);
    },
    { onSettled: () => setPending(undefined) },
  );
  const close = () => {
    setAsked(undefined);
    onClosed?.();
  };
  return {
    pending,
    asking: asked !== undefined,
    run(workspace, action) {
      if (action === 'delete' || action === 'update') {
        setAsked({ workspace, action });
        return true;
      }
      if (action === 'stop') stopSoon(workspace);
      else change.mutate({ workspace, action });
      return false;
    },
    dialogs: (
      <Suspense>
        {asked?.action === 'delete' && (
          <DeleteDialog workspace={asked.workspace} onClose={close} {...(onDeleted ? { onDeleted } : {})} />
        )}
        {asked?.action === 'update' && <UpdateDialog workspace={asked.workspace} onClose={close} />}
      </Suspense>
    ),
  };
}

export function isPermitted(
  action: ActionName,
  may: Pick<WorkspacePermissions, 'start' | 'stop' | 'delete' | 'update'> | undefined,
): boolean {
  if (!may) return false;
  switch (action) {
    case 'start':
    case 'retry':
      return may.start;
    case 'stop':
      return may.stop;
    case 'restart':
      return may.start && may.stop;
    case 'delete':
      return may.delete;
    default:
      return may.update;
  }
}
