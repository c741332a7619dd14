import type { Workspace } from '@ropewalk/contract';
import { useRouteParams } from '../../../util/route.ts';
import { useWorkspace } from '../queries.ts';

/** The workspace of the address. The layout around these pages shows them only once it is loaded. */
export function useCurrentWorkspace(): Workspace {
  const { owner, workspace } = useRouteParams<'owner' | 'workspace'>();
  return useWorkspace(owner, workspace).data!;
}
