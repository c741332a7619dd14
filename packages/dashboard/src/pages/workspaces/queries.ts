import type { Workspace, WorkspaceBuild } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { call } from '../../api/client.ts';
import { apiQuery, queryClient } from '../../api/query.ts';

const BY_NAME = 'GET /users/{user}/workspace/{workspacename}' as const;
const LIST = 'GET /workspaces' as const;

/** A workspace by its names. A deleted one has the status `deleted`. */
export function workspaceByName(owner: string, name: string) {
  const query = (id?: string) =>
    apiQuery(BY_NAME, [{ kind: 'workspace', id }], {
      params: { user: owner, workspacename: name },
      query: { include_deleted: true },
    });
  // before its id is known, any workspace may be this one
  return query(queryClient.getQueryData(query().queryKey)?.id);
}

export const useWorkspace = (owner: string, name: string) => useQuery(workspaceByName(owner, name));

export const LIST_PAGE = 100;

/** A search without the keys whose value is still to be typed: the server rejects them. */
const complete = (q: string) => q.replaceAll(/(?<=^|\s)[^\s":]*:(?=\s|$)/g, '').trim();

/** A page of the workspaces that match a search. */
export const workspacesQuery = (q: string, page = 0, limit = LIST_PAGE) =>
  apiQuery(LIST, [{ kind: 'workspace' }, { kind: 'template' }], {
    query: { q: complete(q), limit, offset: page * limit },
  });

export const templatesQuery = apiQuery('GET /templates', [{ kind: 'template' }]);

export const buildsQuery = (workspaceId: string, limit: number) =>
  apiQuery('GET /workspaces/{workspace}/builds', [{ kind: 'workspace', id: workspaceId }], {
    params: { workspace: workspaceId },
    query: { limit },
  });

export const buildByNumber = (owner: string, name: string, number: string, workspaceId?: string) =>
  apiQuery(
    'GET /users/{user}/workspace/{workspacename}/builds/{buildnumber}',
    [{ kind: 'workspace', id: workspaceId }],
    { params: { user: owner, workspacename: name, buildnumber: number } },
  );

/** A build's parameters never change. */
export const buildParametersQuery = (buildId: string) => ({
  ...apiQuery('GET /workspacebuilds/{workspacebuild}/parameters', [], { params: { workspacebuild: buildId } }),
  staleTime: Number.POSITIVE_INFINITY,
});

/** The values with which a form about the next build starts: also those of parameters that a condition hides now. */
export const valuesBeforeQuery = (buildId: string) => ({
  ...apiQuery('GET /workspacebuilds/{workspacebuild}/parameters', [], {
    params: { workspacebuild: buildId },
    query: { earlier: true },
  }),
  staleTime: Number.POSITIVE_INFINITY,
});

export const timingsQuery = (build: Pick<WorkspaceBuild, 'id' | 'workspace_id'>) =>
  apiQuery('GET /workspacebuilds/{workspacebuild}/timings', [{ kind: 'workspace', id: build.workspace_id }], {
    params: { workspacebuild: build.id },
  });

export const sshConfigQuery = apiQuery('GET /deployment/ssh', []);

/** Changes a workspace in every answer that contains it, until the next fetch. */
export function patchCached(id: string, change: (workspace: Workspace) => Workspace): void {
  queryClient.setQueriesData<Workspace>({ queryKey: [BY_NAME] }, (old) => (old?.id === id ? change(old) : old));
  queryClient.setQueriesData<{ count: number; workspaces: Workspace[] }>({ queryKey: [LIST] }, (old) =>
    old?.workspaces?.some((one) => one.id === id)
      ? { ...old, workspaces: old.workspaces.map((one) => (one.id === id ? change(one) : one)) }
      : old,
  );
}

/** Fetches again what shows this workspace. */
export async function refreshWorkspace(id: string): Promise<void> {
  await queryClient.invalidateQueries({
    predicate: (query) =>
      (query.meta?.watches ?? []).some((watch) => watch.kind === 'workspace' && (watch.id ?? id) === id),
  });
}

type BuildBody = Parameters<typeof call<'POST /workspaces/{workspace}/builds'>>[1]['body'];

/** Orders a build and shows it immediately. */
export async function orderBuild(workspaceId: string, body: BuildBody): Promise<WorkspaceBuild> {
  const build = await call('POST /workspaces/{workspace}/builds', {
    params: { workspace: workspaceId },
    body: { reason: 'dashboard', ...body },
  });
  return showBuild(build);
}

/** Orders a stop and the start after it, which the server begins, and shows the stop immediately. */
export async function orderRestart(workspaceId: string): Promise<WorkspaceBuild> {
  const params = { workspace: workspaceId };
  return showBuild(await call('POST /workspaces/{workspace}/restart', { params, body: { reason: 'dashboard' } }));
}

function showBuild(build: WorkspaceBuild): WorkspaceBuild {
  const { workspace_id: id } = build;
  patchCached(id, (workspace) => ({ ...workspace, latest_build: build }));
  void refreshWorkspace(id);
  return build;
}

export async function setFavorite(workspace: Workspace, favorite: boolean): Promise<void> {
  patchCached(workspace.id, (old) => ({ ...old, favorite }));
  const params = { workspace: workspace.id };
  try {
    if (favorite) await call('PUT /workspaces/{workspace}/favorite', { params });
    else await call('DELETE /workspaces/{workspace}/favorite', { params });
  } catch (err) {
    patchCached(workspace.id, (old) => ({ ...old, favorite: !favorite }));
    throw err;
  }
}
