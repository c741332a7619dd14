import { paths } from '../../../util/paths.ts';
import { useGo, useSearchParams } from '../../../util/route.ts';
import { DEFAULT_FILTER } from './filters.ts';

export type Grouping = '' | 'organization' | 'template';

export const GROUPINGS: readonly { value: Grouping; name: string }[] = [
  { value: '', name: 'No groups' },
  { value: 'template', name: 'By template' },
  { value: 'organization', name: 'By organization' },
];

/** The search and the groups of the list, which are in the page's address. */
export function useAddress() {
  const [search, setSearch] = useSearchParams();
  const go = useGo();
  return {
    filter: (search.filter ?? DEFAULT_FILTER).trim(),
    setFilter(next: string) {
      if (next !== '') setSearch({ filter: next });
      // an empty filter stays in the address, since no filter means one's own workspaces
      else go(paths.workspaces(''), { replace: true });
    },
    grouping: GROUPINGS.find(({ value }) => value === search.group)?.value ?? '',
    setGrouping: (next: Grouping) => setSearch({ group: next }),
  };
}

export type Address = ReturnType<typeof useAddress>;
