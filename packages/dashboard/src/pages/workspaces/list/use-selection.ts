import type { Workspace } from '@ropewalk/contract';
import { useCallback, useState } from 'react';
import { queryClient } from '../../../api/query.ts';
import { workspacesQuery } from '../queries.ts';
import type { Rows } from './use-rows.ts';

/** The maximum number of workspaces that one request returns when all are selected. */
const SELECT_PAGE = 1_000;

/** The selected workspaces. They stay selected while other rows are loaded. */
export function useSelection(filter: string, rows: Rows) {
  const [selected, setSelected] = useState<ReadonlyMap<string, Workspace>>(new Map());
  const select = useCallback(
    (workspace: Workspace, on: boolean) =>
      setSelected((old) => {
        const next = new Map(old);
        if (on) next.set(workspace.id, workspace);
        else next.delete(workspace.id);
        return next;
      }),
    [],
  );
  const loaded = new Map(rows.loaded.map((workspace) => [workspace.id, workspace]));
  return {
    /** The loaded rows have the present state of the selected workspaces. */
    workspaces: [...selected.values()].map((workspace) => loaded.get(workspace.id) ?? workspace),
    has: ({ id }: Workspace) => selected.has(id),
    /** The same function in each render. */
    select,
    hasAllLoaded: rows.loaded.length > 0 && rows.loaded.every(({ id }) => selected.has(id)),
    selectLoaded: () => setSelected(loaded),
    /** Selects everything that matches the search. */
    async selectAll() {
      const all = new Map<string, Workspace>();
      for (let page = 0; page * SELECT_PAGE < (rows.count ?? 0); page++) {
        const { workspaces } = await queryClient.fetchQuery(workspacesQuery(filter, page, SELECT_PAGE));
        for (const workspace of workspaces) all.set(workspace.id, workspace);
      }
      setSelected(all);
    },
    clear: () => setSelected(new Map()),
  };
}

export type Selection = ReturnType<typeof useSelection>;
