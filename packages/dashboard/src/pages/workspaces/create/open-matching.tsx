import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useEffect } from 'react';
import { SkeletonLines } from '../../../ui/states.tsx';
import { paths } from '../../../util/paths.ts';
import { useGo } from '../../../util/route.ts';
import { workspacesQuery } from '../queries.ts';

/** Opens the workspace that a link's search finds among one's own. The form appears if there is none. */
export function OpenMatching({ match, children }: { match: string | undefined; children: ReactNode }) {
  const go = useGo();
  const found = useQuery({ ...workspacesQuery(`owner:me ${match ?? ''}`, 0, 1), enabled: Boolean(match) });
  const workspace = found.data?.workspaces[0];
  useEffect(() => {
    if (workspace) go(paths.workspace(workspace), { replace: true });
  }, [workspace, go]);
  return match && (found.isPending || workspace) ? <SkeletonLines lines={8} /> : children;
}
