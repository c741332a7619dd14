import type { Workspace } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { Lock, Plus, SearchX, SquareDashed } from 'lucide-react';
import { useCallback, useRef } from 'react';
import { errorLine } from '../../../api/errors.ts';
import { buildInfoQuery, organizationsQuery, useMe } from '../../../api/me.ts';
import { useSitePermissions, useWorkspacesPermissions } from '../../../api/permissions.ts';
import { Button, LinkButton } from '../../../ui/button.tsx';
import { Checkbox } from '../../../ui/checkbox.tsx';
import { cx } from '../../../ui/classes.ts';
import { filterValue } from '../../../ui/filter-tokens.ts';
import { Page } from '../../../ui/page.tsx';
import { EmptyState, ErrorView } from '../../../ui/states.tsx';
import { paths } from '../../../util/paths.ts';
import { useTemplateOrganizations } from '../../templates/data.ts';
import { useWorkspaceActions } from '../actions.tsx';
import { OwnBudgets } from '../budget.tsx';
import { templatesQuery, workspacesQuery } from '../queries.ts';
import type { ActionName } from '../status.ts';
import { BulkBar } from './bulk.tsx';
import { FilterBar } from './filter-bar.tsx';
import { DEFAULT_FILTER } from './filters.ts';
import { Groups } from './groups.tsx';
import { COLUMNS, WorkspaceRow } from './row.tsx';
import { RowList, SkeletonRow } from './rows.tsx';
import type { MayOf } from './selection.ts';
import { type Address, useAddress } from './use-address.ts';
import { type Rows, useRows } from './use-rows.ts';
import { type Selection, useSelection } from './use-selection.ts';

export default function WorkspaceListPage() {
  const address = useAddress();
  const { filter } = address;
  const rows = useRows(filter);
  const selection = useSelection(filter, rows);
  const mayOf = useWorkspacesPermissions([...rows.loaded, ...selection.workspaces], useMe().id);
  const actions = useWorkspaceActions();
  const latest = useRef(actions.run);
  latest.current = actions.run;
  const onAction = useCallback((workspace: Workspace, action: ActionName) => latest.current(workspace, action), []);
  const mayCreate = useSitePermissions().createOwnWorkspace;
  const noOwn = rows.count === 0 && filter === DEFAULT_FILTER;
  const all = useQuery({ ...workspacesQuery('', 0, 1), enabled: noOwn }).data;
  // nothing to filter, to group or to select: the page has one action, also until the other workspaces are counted
  const none = rows.count === 0 && (all ? all.count === 0 : noOwn);
  return (
    <Page
      title="Workspaces"
      actions={
        <>
          <OwnBudgets />
          {!noOwn && mayCreate && (
            <LinkButton to={paths.templates()} look="primary" icon={Plus}>
              New workspace
            </LinkButton>
          )}
        </>
      }
    >
      <FilterBar address={address} error={filterProblem(rows)} hidden={none} />
      {/* no overflow: the bar of the selection sticks to the window */}
      <section aria-label="Workspaces" className="rounded-lg border border-line bg-surface">
        {selection.workspaces.length > 0 ? (
          <BulkBar
            selected={selection.workspaces}
            mayOf={mayOf}
            total={rows.count ?? 0}
            onSelectAll={selection.selectAll}
            onClear={selection.clear}
          />
        ) : rows.count === 0 ? null : (
          <Heading rows={rows} selection={selection} />
        )}
        <Content
          address={address}
          rows={rows}
          selection={selection}
          mayOf={mayOf}
          onAction={onAction}
          others={(all?.count ?? 0) > 0}
        />
      </section>
      {actions.dialogs}
    </Page>
  );
}

/** What is wrong with the search. */
function filterProblem({ error }: Rows): string | undefined {
  const isOfFilter = error instanceof Error && 'status' in error && error.status === 400 && 'validations' in error;
  return isOfFilter ? errorLine(error) : undefined;
}

/** The names of the columns, in which the first one selects all rows. */
function Heading({ rows, selection }: { rows: Rows; selection: Selection }) {
  return (
    <div className={cx(COLUMNS, 'h-10 border-line border-b text-muted text-sm')}>
      <Checkbox
        checked={selection.hasAllLoaded}
        disabled={rows.loaded.length === 0}
        onChange={selection.selectLoaded}
        label="Select all loaded workspaces"
        hideLabel
      />
      <div aria-live="polite">{rows.count !== undefined && countText(rows.count)}</div>
      <div className="hidden md:block">Status</div>
      <div className="hidden lg:block">Last used</div>
      <div />
    </div>
  );
}

// formats are slow to make, and a short number needs none
const countText = (count: number) =>
  `${count < 1_000 ? count : count.toLocaleString()} ${count === 1 ? 'workspace' : 'workspaces'}`;

/** The workspaces of the search, or why there are none. */
function Content({
  address: { filter, setFilter, grouping },
  rows,
  selection,
  mayOf,
  onAction,
  others,
}: {
  address: Address;
  rows: Rows;
  selection: Selection;
  mayOf: MayOf;
  onAction: (workspace: Workspace, action: ActionName) => void;
  /** Whether the person sees workspaces of others. */
  others: boolean;
}) {
  const me = useMe();
  const templates = useQuery(templatesQuery).data;
  const organizations = useQuery(organizationsQuery).data;
  const serverVersion = useQuery(buildInfoQuery).data?.version;
  const mine = filterValue(filter, 'owner') === 'me';
  const row = (workspace: Workspace) => (
    <WorkspaceRow
      workspace={workspace}
      selected={selection.has(workspace)}
      onSelect={selection.select}
      onAction={onAction}
      mine={mine || workspace.owner_id === me.id}
      may={mayOf(workspace)}
      showOrganization={(organizations?.length ?? 0) > 1}
      serverVersion={serverVersion}
    />
  );
  if (filterProblem(rows) !== undefined)
    return (
      <EmptyState icon={SearchX} title="The search is not valid">
        Correct it above, or choose a saved filter.
      </EmptyState>
    );
  if (rows.error !== undefined) return <ErrorView error={rows.error} retry={rows.retry} />;
  if (rows.count === undefined)
    return (
      <div role="status" aria-label="Loading">
        {Array.from({ length: 6 }, (_, at) => (
          <SkeletonRow key={at} />
        ))}
      </div>
    );
  if (rows.count === 0)
    return (
      <NoWorkspaces filter={filter} templates={templates?.length} others={others} onShowAll={() => setFilter('')} />
    );
  return (
    <div
      role="list"
      aria-busy={rows.stale || undefined}
      className={cx(rows.stale && 'opacity-60', '[&>*:last-child>*]:border-b-0')}
    >
      {grouping === '' ? (
        <RowList rows={rows}>{row}</RowList>
      ) : (
        <Groups grouping={grouping} filter={filter}>
          {row}
        </Groups>
      )}
    </div>
  );
}

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
  const mayCreate = useSitePermissions().createOwnWorkspace;
  const mayAddTemplate = (useTemplateOrganizations()?.length ?? 0) > 0;
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
  const showAll = others && <Button onClick={onShowAll}>Show all workspaces</Button>;
  // before the answer, most people may
  if (mayCreate === false)
    return (
      <EmptyState icon={Lock} title="You have no workspaces, and cannot create any" action={showAll}>
        Your roles do not allow it. Ask an administrator of your organization.
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
            mayAddTemplate && (
              <LinkButton to={paths.templateBuilder()} look="primary" icon={Plus}>
                Add a template
              </LinkButton>
            )
          )}
          {showAll}
        </>
      }
    >
      {templates !== 0
        ? 'A workspace is a computer for your work. Choose a template, and it is ready in minutes.'
        : mayAddTemplate
          ? 'A workspace is made from a template, and there is no template yet.'
          : 'A template administrator has to create a template before you can make a workspace.'}
    </EmptyState>
  );
}
