import type { Workspace } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { errorLine } from '../../../api/errors.ts';
import { organizationsQuery } from '../../../api/me.ts';
import { Button } from '../../../ui/button.tsx';
import { filterTerm } from '../../../ui/filter-tokens.ts';
import { Link } from '../../../ui/link.tsx';
import { ErrorView } from '../../../ui/states.tsx';
import { paths } from '../../../util/paths.ts';
import { templatesQuery, workspacesQuery } from '../queries.ts';

/** The filter that a search term and a group have in common. */
const both = (filter: string, term: string) => `${filter} ${term}`.trim();

/** The maximum number of rows of a group. More are one click away. */
const GROUP_ROWS = 50;

/** The workspaces of the search by organization or by template. */
export function Groups({
  grouping,
  filter,
  children,
}: {
  grouping: 'organization' | 'template';
  filter: string;
  children: (workspace: Workspace) => ReactNode;
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
  children: (workspace: Workspace) => ReactNode;
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
