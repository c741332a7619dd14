import type { Workspace, WorkspaceAgent } from '@platform/contract';
import { Ellipsis, PlugZap, SquareTerminal } from 'lucide-react';
import { Fragment, memo } from 'react';
import { Avatar } from '../../../ui/avatar.tsx';
import { Badge, Status } from '../../../ui/badge.tsx';
import { buttonClass, IconButton } from '../../../ui/button.tsx';
import { cx } from '../../../ui/classes.ts';
import { Link } from '../../../ui/link.tsx';
import { Menu, MenuItem, MenuSeparator } from '../../../ui/menu.tsx';
import { paths } from '../../../util/paths.ts';
import { formatExact, formatRelative, isZeroTime, useNow } from '../../../util/time.ts';
import { ACTIONS } from '../actions.tsx';
import { AppLink } from '../app-link.tsx';
import { ConnectMenu } from '../connect-menu.tsx';
import { FavoriteButton } from '../favorite.tsx';
import { type ActionName, actionsOf, agentsOf, isActive, isReachable, workspaceLook } from '../status.ts';

/** In pixels, as the tokens say. */
export const ROW_HEIGHT = { comfortable: 61, compact: 47 };
/** The columns: selection, name, template, status, last use, apps and actions. */
export const COLUMNS =
  'grid grid-cols-[auto_minmax(0,1fr)_auto] items-center gap-x-4 px-4 md:grid-cols-[auto_minmax(0,2fr)_minmax(0,1.4fr)_9.5rem_auto] lg:grid-cols-[auto_minmax(0,2fr)_minmax(0,1.4fr)_9.5rem_7rem_13rem]';

const MOST_APPS = 3;

/** One workspace of the list. */
export const WorkspaceRow = memo(function WorkspaceRow({
  workspace,
  selected,
  onSelect,
  onAction,
  mine,
}: {
  workspace: Workspace;
  selected: boolean;
  onSelect: (workspace: Workspace, selected: boolean) => void;
  onAction: (workspace: Workspace, action: ActionName) => void;
  /** Whether it is the person's own: its owner's name says nothing new. */
  mine: boolean;
}) {
  const { name, owner_name: owner, latest_build: build, outdated } = workspace;
  const look = workspaceLook(workspace);
  return (
    <div
      className={cx(
        COLUMNS,
        'h-(--workspace-row) border-line border-b',
        selected ? 'bg-accent-soft/50' : 'hover:bg-hover',
      )}
    >
      {/* the browser's own: rows must render fast while a long list scrolls */}
      <input
        type="checkbox"
        aria-label={`Select ${owner}/${name}`}
        checked={selected}
        onChange={(event) => onSelect(workspace, event.target.checked)}
        className="size-4 accent-accent"
      />
      <div className="flex min-w-0 items-center gap-3">
        <Avatar name={workspace.template_name} src={workspace.template_icon} size={30} square />
        <div className="min-w-0">
          <div className="flex min-w-0 items-center gap-1.5">
            <Link to={paths.workspace(workspace)} plain className="min-w-0 truncate font-medium hover:underline">
              {!mine && <span className="font-normal text-muted">{owner}/</span>}
              {name}
            </Link>
            {mine && <FavoriteButton workspace={workspace} />}
            {outdated && <Badge tone="warn">Outdated</Badge>}
          </div>
          <div className="truncate text-muted text-sm md:hidden">
            <Status tone={look.tone}>{look.text}</Status>
          </div>
          <div className="hidden truncate text-muted text-sm md:block">
            {build.template_version_name || 'No version'}
          </div>
        </div>
      </div>
      <div className="hidden min-w-0 md:block">
        <div className="truncate">{workspace.template_display_name || workspace.template_name}</div>
        <div className="truncate text-muted text-sm">{workspace.organization_name}</div>
      </div>
      <div className="hidden min-w-0 md:block">
        <Status tone={look.tone}>{look.text}</Status>
        <StatusDetail workspace={workspace} />
      </div>
      <div className="hidden lg:block">
        <LastUsed workspace={workspace} />
      </div>
      <RowActions workspace={workspace} onAction={onAction} />
    </div>
  );
});

/** What matters beside the state: when it starts, stops or is deleted, or why it waits. */
function StatusDetail({ workspace }: { workspace: Workspace }) {
  const text = detailText(workspace, useNow(30_000));
  return text ? <div className="truncate text-muted text-sm">{text}</div> : null;
}

function detailText(workspace: Workspace, now: number): string | undefined {
  const { latest_build: build, deleting_at: deletingAt, dormant_at: dormantAt } = workspace;
  const { pending_reason: reason } = build.job;
  if (build.status === 'pending' && reason) {
    if (reason.reason === 'starting') return undefined;
    return reason.reason === 'provisioners_busy'
      ? `Queue: ${reason.queue_position} of ${reason.queue_size}`
      : 'No daemon takes it';
  }
  if (isActive(build.status)) return undefined;
  if (dormantAt) return deletingAt ? `Deletion ${formatRelative(deletingAt, now)}` : undefined;
  if (workspace.automatic_build_error) return 'An automatic build cannot begin';
  if (build.status === 'running' && !isZeroTime(build.deadline)) return `Stops ${formatRelative(build.deadline!, now)}`;
  if (build.status === 'stopped' && workspace.next_start_at) {
    return `Starts ${formatRelative(workspace.next_start_at, now)}`;
  }
  return undefined;
}

function LastUsed({ workspace }: { workspace: Workspace }) {
  const now = useNow(30_000);
  if (isZeroTime(workspace.last_used_at)) return <span className="text-muted text-sm">Never used</span>;
  return (
    <time
      dateTime={workspace.last_used_at}
      // the exact time of each row would be a fifth of the time that its row takes
      onMouseEnter={({ currentTarget }) => {
        currentTarget.title = formatExact(workspace.last_used_at);
      }}
      className="text-muted text-sm"
    >
      {formatRelative(workspace.last_used_at, now)}
    </time>
  );
}

function RowActions({
  workspace,
  onAction,
}: {
  workspace: Workspace;
  onAction: (workspace: Workspace, action: ActionName) => void;
}) {
  const agents = agentsOf(workspace.latest_build).filter(isReachable);
  const [first] = agents;
  const apps = agents
    .flatMap((agent) => agent.apps.filter((app) => !app.hidden).map((app) => ({ app, agent })))
    .slice(0, MOST_APPS);
  return (
    <div className="flex items-center justify-end gap-0.5">
      <div className="hidden items-center gap-0.5 lg:flex">
        {apps.map(({ app, agent }) => (
          <AppLink key={app.id} app={app} workspace={workspace} agent={agent} iconOnly />
        ))}
        {first?.display_apps.includes('web_terminal') && (
          <Link
            to={paths.terminal(workspace, first.name)}
            plain
            target="_blank"
            title="Terminal"
            aria-label={`Terminal of ${workspace.name}`}
            className={buttonClass('ghost', 'sm', true)}
          >
            <SquareTerminal size={16} aria-hidden="true" />
          </Link>
        )}
      </div>
      {first && <ConnectTrigger workspace={workspace} agent={first} />}
      <ActionMenu workspace={workspace} onAction={onAction} />
    </div>
  );
}

/** What can be done with the workspace. */
function ActionMenu({
  workspace,
  onAction,
}: {
  workspace: Workspace;
  onAction: (workspace: Workspace, action: ActionName) => void;
}) {
  const actions = actionsOf(workspace);
  const button = {
    icon: Ellipsis,
    size: 'sm',
    label: `More actions for ${workspace.name}`,
    disabled: actions.length === 0,
  } as const;
  return (
    <Menu trigger={<IconButton {...button} />}>
      {actions.map((action) => (
        <Fragment key={action}>
          {action === 'delete' && <MenuSeparator />}
          <MenuItem
            icon={ACTIONS[action].icon}
            danger={action === 'delete'}
            onSelect={() => onAction(workspace, action)}
          >
            {ACTIONS[action].name}
          </MenuItem>
        </Fragment>
      ))}
    </Menu>
  );
}

const ConnectTrigger = ({ workspace, agent }: { workspace: Workspace; agent: WorkspaceAgent }) => (
  <ConnectMenu
    workspace={workspace}
    agent={agent}
    trigger={<IconButton icon={PlugZap} size="sm" label={`Connect to ${workspace.name}`} />}
  />
);
