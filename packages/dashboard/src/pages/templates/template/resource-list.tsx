import type { WorkspaceResource } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { AppWindow, Box, HardDrive, SquareTerminal } from 'lucide-react';
import { Avatar } from '../../../ui/avatar.tsx';
import { Badge } from '../../../ui/badge.tsx';
import { EmptyState, QueryView, SkeletonLines } from '../../../ui/states.tsx';
import { resourcesQuery } from '../data.ts';

/** A resource, and whether it remains when a workspace stops. */
interface Shown extends WorkspaceResource {
  persistent: boolean;
}

/** The resources of a running workspace. Those that a stopped one has, too, are persistent. */
export function shownResources(resources: readonly WorkspaceResource[]): Shown[] {
  const kept = new Set(
    resources.filter((each) => each.workspace_transition === 'stop').map(({ type, name }) => `${type}.${name}`),
  );
  return resources
    .filter((each) => each.workspace_transition === 'start' && !each.hide)
    .map((each) => ({ ...each, persistent: kept.has(`${each.type}.${each.name}`) }))
    .sort((a, b) => Number(Boolean(b.agents?.length)) - Number(Boolean(a.agents?.length)));
}

function ResourceIcon({ resource }: { resource: Shown }) {
  if (resource.icon) return <Avatar name={resource.type} src={resource.icon} size={28} square />;
  const Icon = resource.agents?.length ? Box : resource.persistent ? HardDrive : Box;
  return (
    <span className="flex size-7 shrink-0 items-center justify-center rounded-md bg-sunken text-muted">
      <Icon size={15} aria-hidden="true" />
    </span>
  );
}

/** Names and lifetimes in a narrow column. */
export function ResourceSummary({ versionId }: { versionId: string }) {
  return (
    <QueryView
      query={useQuery(resourcesQuery(versionId))}
      loading={
        <div className="px-4 py-2">
          <SkeletonLines lines={3} />
        </div>
      }
    >
      {(resources) => {
        const shown = shownResources(resources);
        if (shown.length === 0) return <div className="px-4 py-3 text-muted">No resources.</div>;
        return (
          <ul>
            {shown.map((resource) => (
              <li
                key={resource.id}
                className="flex items-center gap-3 border-line border-b px-4 py-2.5 last:border-b-0"
              >
                <ResourceIcon resource={resource} />
                <div className="min-w-0 flex-1">
                  <div className="truncate font-medium">{resource.name}</div>
                  <div className="truncate font-mono text-muted text-xs">{resource.type}</div>
                </div>
                {resource.persistent && <Badge>Persistent</Badge>}
              </li>
            ))}
          </ul>
        );
      }}
    </QueryView>
  );
}

/** Resources with their agents and apps. */
export function ResourceDetails({ resources }: { resources: readonly WorkspaceResource[] }) {
  const shown = shownResources(resources);
  if (shown.length === 0) {
    return (
      <EmptyState icon={Box} title="No resources">
        A workspace of this version has nothing that runs or is stored.
      </EmptyState>
    );
  }
  return (
    <ul>
      {shown.map((resource) => (
        <li key={resource.id} className="flex flex-col gap-3 border-line border-b px-4 py-3 last:border-b-0">
          <div className="flex flex-wrap items-center gap-3">
            <ResourceIcon resource={resource} />
            <div className="min-w-0 flex-1">
              <div className="truncate font-medium">{resource.name}</div>
              <div className="truncate font-mono text-muted text-xs">{resource.type}</div>
            </div>
            {resource.daily_cost > 0 && <Badge>Cost {resource.daily_cost} per day</Badge>}
            <Badge tone={resource.persistent ? 'accent' : 'neutral'}>
              {resource.persistent ? 'Kept when stopped' : 'Removed when stopped'}
            </Badge>
          </div>
          {(resource.metadata ?? []).length > 0 && (
            <dl className="flex flex-wrap gap-x-6 gap-y-1 pl-10 text-sm">
              {resource.metadata!.map(({ key, value, sensitive }) => (
                <div key={key} className="flex gap-2">
                  <dt className="text-muted">{key}</dt>
                  <dd className="break-all">{sensitive ? '••••••' : value}</dd>
                </div>
              ))}
            </dl>
          )}
          {(resource.agents ?? []).map((agent) => (
            <div
              key={agent.id}
              className="ml-10 flex flex-wrap items-center gap-x-4 gap-y-2 rounded-md bg-sunken px-3 py-2"
            >
              <span className="inline-flex items-center gap-2 font-medium">
                <SquareTerminal size={15} aria-hidden="true" className="text-muted" />
                {agent.name}
              </span>
              <span className="text-muted text-sm">
                {agent.operating_system}/{agent.architecture}
              </span>
              {agent.apps.map((app) => (
                <span key={app.id} className="inline-flex items-center gap-1.5 text-sm">
                  {app.icon ? (
                    <Avatar name={app.display_name || app.slug} src={app.icon} size={16} square />
                  ) : (
                    <AppWindow size={14} aria-hidden="true" className="text-muted" />
                  )}
                  {app.display_name || app.slug}
                </span>
              ))}
            </div>
          ))}
        </li>
      ))}
    </ul>
  );
}
