import type { Workspace } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { Bookmark, Layers, Plus, SearchX, SquareDashed } from 'lucide-react';
import { useCallback, useMemo, useRef, useState } from 'react';
import { errorLine } from '../../../api/errors.ts';
import { organizationValues, usersLike } from '../../../api/filter-values.ts';
import { buildInfoQuery, organizationsQuery, useMe } from '../../../api/me.ts';
import { useSitePermissions, useWorkspacesPermissions } from '../../../api/permissions.ts';
import { queryClient } from '../../../api/query.ts';
import { Button, LinkButton } from '../../../ui/button.tsx';
import { Checkbox } from '../../../ui/checkbox.tsx';
import { cx } from '../../../ui/classes.ts';
import { FilterInput } from '../../../ui/filter-input.tsx';
import { FilterMenu } from '../../../ui/filter-menu.tsx';
import { filterTerm, filterValue } from '../../../ui/filter-tokens.ts';
import { Link } from '../../../ui/link.tsx';
import { Menu, MenuItem } from '../../../ui/menu.tsx';
import { Page } from '../../../ui/page.tsx';
import { ScrollRow } from '../../../ui/scroll-row.tsx';
import { EmptyState, ErrorView } from '../../../ui/states.tsx';
import { paths } from '../../../util/paths.ts';
import { useGo, useSearchParams } from '../../../util/route.ts';
import { useTemplateOrganizations } from '../../templates/data.ts';
import { useWorkspaceActions } from '../actions.tsx';
import { OwnBudgets } from '../budget.tsx';
import { templatesQuery, workspacesQuery } from '../queries.ts';
import type { ActionName } from '../status.ts';
import { BulkBar } from './bulk.tsx';
import { DEFAULT_FILTER, FILTER_MENUS, filterKeys, SAVED_FILTERS } from './filters.ts';
import { COLUMNS, WorkspaceRow } from './row.tsx';
import { RowList, SkeletonRow } from './rows.tsx';
import { useRows } from './use-rows.ts';

type Grouping = '' | 'organization' | 'template';
const GROUPINGS: { value: Grouping; name: string }[] = [
  { value: '', name: 'No groups' },
  { value: 'template', name: 'By template' },
  { value: 'organization', name: 'By organization' },
];
/** The maximum number of workspaces that one request returns when all are selected. */
const SELECT_PAGE = 1_000;

/** The filter that a search term and a group have in common. */
const both = (filter: string, term: string) => `${filter} ${term}`.trim();

export default function WorkspaceListPage() {
  const [search, setSearch] = useSearchParams();
  const go = useGo();
  const filter = (search.filter ?? DEFAULT_FILTER).trim();
  const grouping = (GROUPINGS.find(({ value }) => value === search.group)?.value ?? '') as Grouping;
  const setFilter = (next: string) => {
    if (next !== '') setSearch({ filter: next });
    // an empty filter stays in the address, since no filter means one's own workspaces
    else go(paths.workspaces(''), { replace: true });
  };
  const rows = useRows(filter);
  const me = useMe();
  const templates = useQuery(templatesQuery).data;
  const organizations = useQuery(organizationsQuery).data;
  const mayReadUsers = useSitePermissions().readUsers;
  const keys = useMemo(
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
  // the loaded rows have the present state of the selected workspaces
  const current = new Map(rows.loaded.map((workspace) => [workspace.id, workspace]));
  const chosen = [...selected.values()].map((workspace) => current.get(workspace.id) ?? workspace);
  const actions = useWorkspaceActions();
  const latest = useRef(actions.run);
  latest.current = actions.run;
  const onAction = useCallback((workspace: Workspace, action: ActionName) => latest.current(workspace, action), []);
  const selectAll = async () => {
    const all = new Map<string, Workspace>();
    for (let page = 0; page * SELECT_PAGE < (rows.count ?? 0); page++) {
      const { workspaces } = await queryClient.fetchQuery(workspacesQuery(filter, page, SELECT_PAGE));
      for (const workspace of workspaces) all.set(workspace.id, workspace);
    }
    setSelected(all);
  };
  const mine = filterValue(filter, 'owner') === 'me';
  const mayOf = useWorkspacesPermissions([...rows.loaded, ...chosen], me.id);
  const serverVersion = useQuery(buildInfoQuery).data?.version;
  const row = (workspace: Workspace) => (
    <WorkspaceRow
      workspace={workspace}
      selected={selected.has(workspace.id)}
      onSelect={select}
      onAction={onAction}
      mine={mine || workspace.owner_id === me.id}
      may={mayOf(workspace)}
      showOrganization={(organizations?.length ?? 0) > 1}
      serverVersion={serverVersion}
    />
  );
  const all = useQuery({ ...workspacesQuery('', 0, 1), enabled: rows.count === 0 && filter === DEFAULT_FILTER }).data;
  // nothing to filter, to group or to select: the page has one action, also until the other workspaces are counted
  const none = rows.count === 0 && (all ? all.count === 0 : filter === DEFAULT_FILTER);
  const allSelected = rows.loaded.length > 0 && rows.loaded.every(({ id }) => selected.has(id));
  const invalid = errorIsOfFilter(rows.error) ? errorLine(rows.error) : undefined;
  return (
    <Page
      title="Workspaces"
      actions={
        <>
          <OwnBudgets />
          {!(rows.count === 0 && filter === DEFAULT_FILTER) && (
            <LinkButton to={paths.templates()} look="primary" icon={Plus}>
              New workspace
            </LinkButton>
          )}
        </>
      }
    >
      <div className={none ? 'hidden' : 'flex flex-wrap items-start gap-2'}>
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
          error={invalid}
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
            <MenuItem key={value} onSelect={() => setSearch({ group: value })}>
              {name}
            </MenuItem>
          ))}
        </Menu>
      </div>
      {/* no overflow: the bar of the selection sticks to the window */}
      <section aria-label="Workspaces" className="rounded-lg border border-line bg-surface">
        {selected.size > 0 ? (
          <BulkBar
            selected={chosen}
            mayOf={mayOf}
            total={rows.count ?? 0}
            onSelectAll={selectAll}
            onClear={() => setSelected(new Map())}
          />
        ) : rows.count === 0 ? null : (
          <div className={cx(COLUMNS, 'h-10 border-line border-b text-muted text-sm')}>
            <Checkbox
              checked={allSelected}
              disabled={rows.loaded.length === 0}
              onChange={() => setSelected(new Map(rows.loaded.map((workspace) => [workspace.id, workspace])))}
              label="Select all loaded workspaces"
              hideLabel
            />
            <div aria-live="polite">{rows.count !== undefined && countText(rows.count)}</div>
            <div className="hidden md:block">Status</div>
            <div className="hidden lg:block">Last used</div>
            <div />
          </div>
        )}
        {rows.error !== undefined && !invalid ? (
          <ErrorView error={rows.error} retry={rows.retry} />
        ) : invalid ? (
          <EmptyState icon={SearchX} title="The search is not valid">
            Correct it above, or choose a saved filter.
          </EmptyState>
        ) : rows.count === undefined ? (
          <div role="status" aria-label="Loading">
            {Array.from({ length: 6 }, (_, at) => (
              <SkeletonRow key={at} />
            ))}
          </div>
        ) : rows.count === 0 ? (
          <NoWorkspaces
            filter={filter}
            templates={templates?.length}
            others={(all?.count ?? 0) > 0}
            onShowAll={() => setFilter('')}
          />
        ) : (
          <div role="list" className={cx(rows.stale && 'opacity-60', '[&>*:last-child>*]:border-b-0')}>
            {grouping === '' ? (
              <RowList rows={rows}>{row}</RowList>
            ) : (
              <Groups grouping={grouping} filter={filter}>
                {row}
              </Groups>
            )}
          </div>
        )}
      </section>
      {actions.dialogs}
    </Page>
  );
}

// formats are slow to make, and a short number needs none
const countText = (count: number) =>
  `${count < 1_000 ? count : count.toLocaleString()} ${count === 1 ? 'workspace' : 'workspaces'}`;

const errorIsOfFilter = (err: unknown): boolean =>
  err instanceof Error && 'status' in err && err.status === 400 && 'validations' in err;

function NoWorkspaces({
  filter,
  templates,
  others,
  onShowAll,
}: {
  filter: string;
  templates: number | undefined;
  /** Whether the person sees workspaces of others. */
  others: boolean;
  onShowAll: () => void;
}) {
  const mayCreate = (useTemplateOrganizations()?.length ?? 0) > 0;
  if (filter !== '' && filter !== DEFAULT_FILTER)
    return (
      <EmptyState
        icon={SearchX}
        title="No workspace matches the search"
        action={<Button onClick={onShowAll}>Show all workspaces</Button>}
      >
        Check the spelling, or remove a term.
      </EmptyState>
    );
  return (
    <EmptyState
      icon={SquareDashed}
      title="You have no workspaces yet"
      action={
        <>
          {templates !== 0 ? (
            <LinkButton to={paths.templates()} look="primary" icon={Plus}>
              Create a workspace
            </LinkButton>
          ) : (
            mayCreate && (
              <LinkButton to={paths.starterTemplates()} look="primary" icon={Plus}>
                Add a template
              </LinkButton>
            )
          )}
          {others && <Button onClick={onShowAll}>Show all workspaces</Button>}
        </>
      }
    >
      {templates !== 0
        ? 'A workspace is a computer for your work. Choose a template, and it is ready in minutes.'
        : mayCreate
          ? 'A workspace is made from a template, and there is no template yet.'
          : 'A template administrator has to create a template before you can make a workspace.'}
    </EmptyState>
  );
}

/** The maximum number of rows of a group. More are one click away. */
const GROUP_ROWS = 50;

function Groups({
  grouping,
  filter,
  children,
}: {
  grouping: 'organization' | 'template';
  filter: string;
  children: (workspace: Workspace) => React.ReactNode;
}) {
  const templates = useQuery(templatesQuery);
  const organizations = useQuery(organizationsQuery);
  const { data, isError, error, refetch } = grouping === 'template' ? templates : organizations;
  if (!data && isError)
    return (
      <div role="listitem">
        <ErrorView error={error} retry={() => void refetch()} />
      </div>
    );
  const groups =
    grouping === 'template'
      ? (templates.data ?? []).map((template) => ({
          id: template.id,
          name: template.display_name || template.name,
          term: `${filterTerm('template', template.name)} ${filterTerm('organization', template.organization_name)}`,
        }))
      : (organizations.data ?? []).map((organization) => ({
          id: organization.id,
          name: organization.display_name || organization.name,
          term: filterTerm('organization', organization.name),
        }));
  return groups.map((group) => (
    <Group key={group.id} name={group.name} filter={both(filter, group.term)}>
      {children}
    </Group>
  ));
}

function Group({
  name,
  filter,
  children,
}: {
  name: string;
  filter: string;
  children: (workspace: Workspace) => React.ReactNode;
}) {
  const { data, isError, error, refetch } = useQuery(workspacesQuery(filter, 0, GROUP_ROWS));
  if (!data && isError)
    return (
      <div role="listitem" className="flex items-center gap-2 border-line border-b bg-sunken px-4 py-2">
        <h2 className="font-medium text-sm">{name}</h2>
        <span role="alert" className="min-w-0 flex-1 text-muted text-sm">
          {errorLine(error)}
        </span>
        <Button size="sm" onClick={() => void refetch()}>
          Try again
        </Button>
      </div>
    );
  if (!data || data.count === 0) return null;
  return (
    <>
      <div role="listitem" className="flex items-center gap-2 border-line border-b bg-sunken px-4 py-2">
        <h2 className="font-medium text-sm">{name}</h2>
        <span className="text-muted text-sm">{data.count.toLocaleString()}</span>
        {data.count > data.workspaces.length && (
          <Link to={paths.workspaces(filter)} className="ml-auto text-sm">
            Show all {data.count.toLocaleString()}
          </Link>
        )}
      </div>
      {data.workspaces.map((workspace) => (
        <div key={workspace.id} role="listitem">
          {children(workspace)}
        </div>
      ))}
    </>
  );
}
