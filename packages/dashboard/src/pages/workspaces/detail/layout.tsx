import type { Workspace } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { Outlet } from '@tanstack/react-router';
import { CopyPlus, Ellipsis, Trash2, Undo2 } from 'lucide-react';
import { Suspense } from 'react';
import { statusOf } from '../../../api/errors.ts';
import { useMe } from '../../../api/me.ts';
import { workspacePermissions } from '../../../api/permissions.ts';
import { Avatar } from '../../../ui/avatar.tsx';
import { Badge, Status } from '../../../ui/badge.tsx';
import { Button, IconButton, LinkButton } from '../../../ui/button.tsx';
import { Link } from '../../../ui/link.tsx';
import { Menu, MenuItem, MenuSeparator } from '../../../ui/menu.tsx';
import { Heading, useTitle } from '../../../ui/page.tsx';
import { EmptyState, ErrorView, Skeleton, SkeletonLines } from '../../../ui/states.tsx';
import { LinkTabs } from '../../../ui/tabs.tsx';
import { paths } from '../../../util/paths.ts';
import { useRouteParams } from '../../../util/route.ts';
import { formatRelative } from '../../../util/time.ts';
import { ACTIONS, isPermitted, useWorkspaceActions } from '../actions.tsx';
import { undoStop, useStopsSoon } from '../delayed-stop.ts';
import { FavoriteButton } from '../favorite.tsx';
import { buildParametersQuery, useWorkspace } from '../queries.ts';
import { type ActionName, actionsOf, workspaceLook } from '../status.ts';

/** The frame around the pages of a workspace. */
export default function WorkspaceLayout() {
  const { owner, workspace: name } = useRouteParams<'owner' | 'workspace'>();
  const query = useWorkspace(owner, name);
  // it was deleted, or is no longer shared with this person: what is shown would be out of date for ever
  const isGone = statusOf(query.error) === 404;
  useTitle(`${owner}/${name}`);
  return (
    <div className="mx-auto flex w-full max-w-7xl flex-col gap-5 px-4 py-6 sm:px-6">
      {query.data && !isGone ? (
        <>
          <Header workspace={query.data} />
          <Suspense fallback={<SkeletonLines lines={6} />}>
            <Outlet />
          </Suspense>
        </>
      ) : query.isError ? (
        <ErrorView
          error={query.error}
          retry={() => void query.refetch()}
          isPage
          notFound={{
            title: 'Workspace not found',
            to: paths.workspaces(),
            all: 'Your workspaces',
          }}
        />
      ) : (
        <>
          <div className="flex items-center gap-4">
            <Skeleton className="size-10" />
            <div className="flex flex-col gap-2">
              <Skeleton className="h-6 w-56" />
              <Skeleton className="w-40" />
            </div>
          </div>
          <Skeleton className="h-9 w-full" />
          <SkeletonLines lines={6} />
        </>
      )}
    </div>
  );
}

const PRIMARY: ReadonlySet<ActionName> = new Set(['start', 'retry', 'activate', 'update']);

function Header({ workspace }: { workspace: Workspace }) {
  const me = useMe();
  const actions = useWorkspaceActions();
  const may = useQuery(workspacePermissions(workspace)).data;
  const look = workspaceLook(workspace);
  const { latest_build: build } = workspace;
  const possible = actionsOf(workspace).filter((action) => isPermitted(action, may));
  const [first, second, ...others] = possible.filter((action) => action !== 'delete');
  const template = { organization_name: workspace.organization_name, name: workspace.template_name };
  const deleted = build.status === 'deleted';
  const stopsSoon = useStopsSoon(workspace.id);
  return (
    <>
      <header className="flex flex-wrap items-center gap-x-4 gap-y-3">
        <Avatar name={workspace.template_name} src={workspace.template_icon} size={40} square />
        <div className="min-w-0 flex-1 basis-64">
          <Heading
            badges={
              <>
                {!deleted && workspace.owner_id === me.id && <FavoriteButton workspace={workspace} />}
                <span aria-live="polite">
                  <Status tone={look.tone}>{look.text}</Status>
                </span>
              </>
            }
          >
            <span className="font-normal text-muted">{workspace.owner_name}/</span>
            {workspace.name}
          </Heading>
          <div className="mt-1 flex flex-wrap items-center gap-x-2 gap-y-1 text-muted">
            <Link to={paths.template(template)} plain className="hover:underline">
              {workspace.template_display_name || workspace.template_name}
            </Link>
            <span aria-hidden="true">·</span>
            <Link
              to={paths.templateVersion(template, build.template_version_name)}
              plain
              className="font-mono text-sm hover:underline"
            >
              {build.template_version_name}
            </Link>
            {workspace.outdated && !deleted && <Badge tone="warn">Outdated</Badge>}
          </div>
        </div>
        {!deleted && (
          <div className="flex flex-wrap items-center gap-2">
            {[first, second].map(
              (action, at) =>
                action && (
                  <Button
                    key={action}
                    icon={action === 'stop' && stopsSoon ? Undo2 : ACTIONS[action].icon}
                    look={at === 0 && PRIMARY.has(action) ? 'primary' : 'default'}
                    pending={actions.pending === action}
                    disabled={actions.pending !== undefined || (stopsSoon && action !== 'stop')}
                    onClick={() =>
                      action === 'stop' && stopsSoon ? undoStop(workspace.id) : actions.run(workspace, action)
                    }
                  >
                    {action === 'stop' && stopsSoon ? 'Undo the stop' : ACTIONS[action].name}
                  </Button>
                ),
            )}
            <Menu trigger={<IconButton icon={Ellipsis} label="More actions" look="default" />}>
              {others.map((action) => (
                <MenuItem key={action} icon={ACTIONS[action].icon} onSelect={() => actions.run(workspace, action)}>
                  {ACTIONS[action].name}
                </MenuItem>
              ))}
              <DuplicateItem workspace={workspace} />
              {possible.includes('delete') && (
                <>
                  <MenuSeparator />
                  <MenuItem icon={Trash2} danger onSelect={() => actions.run(workspace, 'delete')}>
                    Delete
                  </MenuItem>
                </>
              )}
            </Menu>
          </div>
        )}
      </header>
      {deleted ? (
        <DeletedState workspace={workspace} />
      ) : (
        <LinkTabs
          label="Workspace"
          tabs={[
            { to: paths.workspace(workspace), name: 'Overview', exact: true },
            {
              to: paths.workspaceBuild(workspace, build.build_number),
              below: `${paths.workspace(workspace)}/builds`,
              name: 'Builds',
            },
            { to: paths.workspaceSettings(workspace), name: 'Settings' },
          ]}
        />
      )}
      {actions.dialogs}
    </>
  );
}

/** Opens the form of a new workspace with the same values. */
function DuplicateItem({ workspace }: { workspace: Workspace }) {
  const parameters = useQuery(buildParametersQuery(workspace.latest_build.id)).data ?? [];
  return (
    <MenuItem icon={CopyPlus} to={duplicatePath(workspace, parameters)}>
      Duplicate
    </MenuItem>
  );
}

function duplicatePath(workspace: Workspace, parameters: readonly { name: string; value: string }[]): string {
  return paths.createWorkspace(
    { organization_name: workspace.organization_name, name: workspace.template_name },
    {
      mode: 'duplicate',
      name: `${workspace.name}-copy`.slice(0, 32),
      version: workspace.latest_build.template_version_id,
      ...Object.fromEntries(parameters.map(({ name, value }) => [`param.${name}`, value])),
    },
  );
}

function DeletedState({ workspace }: { workspace: Workspace }) {
  const { latest_build: build } = workspace;
  const template = { organization_name: workspace.organization_name, name: workspace.template_name };
  return (
    <div className="rounded-lg border border-line bg-surface">
      <EmptyState
        icon={Trash2}
        title={`${workspace.name} was deleted`}
        action={
          <>
            <LinkButton to={paths.workspaces()} look="primary">
              Your workspaces
            </LinkButton>
            <LinkButton to={paths.createWorkspace(template, { name: workspace.name })}>Create it again</LinkButton>
          </>
        }
      >
        {build.initiator_name} deleted it {formatRelative(build.job.completed_at ?? build.created_at)}. The log of that
        build is below.
      </EmptyState>
    </div>
  );
}
