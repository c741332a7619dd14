import { useQuery } from '@tanstack/react-query';
import { Bookmark, Layers } from 'lucide-react';
import { useMemo } from 'react';
import { organizationValues, usersLike } from '../../../api/filter-values.ts';
import { organizationsQuery } from '../../../api/me.ts';
import { useSitePermissions } from '../../../api/permissions.ts';
import { queryClient } from '../../../api/query.ts';
import { Button } from '../../../ui/button.tsx';
import { FilterInput, type FilterKey } from '../../../ui/filter-input.tsx';
import { FilterMenu } from '../../../ui/filter-menu.tsx';
import { Menu, MenuItem } from '../../../ui/menu.tsx';
import { ScrollRow } from '../../../ui/scroll-row.tsx';
import { templatesQuery } from '../queries.ts';
import { FILTER_MENUS, filterKeys, SAVED_FILTERS } from './filters.ts';
import { type Address, GROUPINGS } from './use-address.ts';

/** The keys of the search, with values that the person may read. */
function useFilterKeys(): FilterKey[] {
  const mayReadUsers = useSitePermissions().readUsers;
  return useMemo(
    () =>
      filterKeys({
        users: mayReadUsers ? usersLike : undefined,
        templates: async () => {
          const found = await queryClient.ensureQueryData(templatesQuery);
          return found.map(({ name, display_name }) => ({ value: name, help: display_name }));
        },
        organizations: organizationValues,
      }),
    [mayReadUsers],
  );
}

/** Searches and groups the list. */
export function FilterBar({
  address: { filter, setFilter, grouping, setGrouping },
  error,
  hidden,
}: {
  address: Address;
  /** What is wrong with the search. */
  error: string | undefined;
  hidden: boolean;
}) {
  const keys = useFilterKeys();
  const organizations = useQuery(organizationsQuery).data;
  return (
    <div className={hidden ? 'hidden' : 'flex flex-wrap items-start gap-2'}>
      <Menu
        align="start"
        trigger={
          <Button icon={Bookmark}>
            <span className="sr-only">Saved filters: </span>
            <span className="sr-only sm:not-sr-only">
              {SAVED_FILTERS.find((saved) => saved.filter === filter)?.name ?? 'Filters'}
            </span>
          </Button>
        }
      >
        {SAVED_FILTERS.map((saved) => (
          <MenuItem key={saved.name} onSelect={() => setFilter(saved.filter)}>
            <span className="flex-1">{saved.name}</span>
            <code className="pl-4 font-mono text-muted text-xs">{saved.filter}</code>
          </MenuItem>
        ))}
      </Menu>
      <FilterInput
        value={filter}
        onChange={setFilter}
        keys={keys}
        label="Search workspaces"
        placeholder="Search, or type a key such as owner: or status:"
        error={error}
      />
      <ScrollRow active={filter} className="-m-1 order-last w-[calc(100%+0.5rem)] gap-2 p-1 lg:order-none lg:w-auto">
        {FILTER_MENUS.map(([key, name]) => {
          const of = keys.find((one) => one.key === key);
          if (!of || (key === 'organization' && (organizations?.length ?? 0) < 2)) return null;
          return <FilterMenu key={key} name={name} of={of} filter={filter} onChange={setFilter} />;
        })}
      </ScrollRow>
      <Menu
        trigger={
          <Button icon={Layers}>
            <span className="sr-only">Groups: </span>
            <span className="sr-only sm:not-sr-only">{GROUPINGS.find(({ value }) => value === grouping)?.name}</span>
          </Button>
        }
      >
        {GROUPINGS.map(({ value, name }) => (
          <MenuItem key={value} onSelect={() => setGrouping(value)}>
            {name}
          </MenuItem>
        ))}
      </Menu>
    </div>
  );
}
