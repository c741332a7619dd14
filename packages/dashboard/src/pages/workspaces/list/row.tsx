import type { Workspace } from '@ropewalk/contract';
import { CodeXml, Ellipsis, PlugZap, SquareTerminal } from 'lucide-react';
import { Fragment, memo, type ReactNode } from 'react';
import type { WorkspacePermissions } from '../../../api/permissions.ts';
import { makeChange } from '../../../api/query.ts';
import { Avatar } from '../../../ui/avatar.tsx';
import { Badge, Status } from '../../../ui/badge.tsx';
import { buttonClass, IconButton } from '../../../ui/button.tsx';
import { cx } from '../../../ui/classes.ts';
import { Link } from '../../../ui/link.tsx';
import { Menu, MenuItem, MenuSeparator } from '../../../ui/menu.tsx';
import { Spinner } from '../../../ui/spinner.tsx';
import { useNarrow } from '../../../ui/use-narrow.ts';
import { paths } from '../../../util/paths.ts';
import { formatExact, formatRelative, isZeroTime, useNow } from '../../../util/time.ts';
import { ACTIONS, isPermitted } from '../actions.tsx';
import { AppLink, AppMenuItem } from '../app-link.tsx';
import { EDITOR_NAMES, editorsOf } from '../connect.ts';
import { ConnectItems, openEditor } from '../connect-menu.tsx';
import { FavoriteButton } from '../favorite.tsx';
import { type ActionName, actionsOf, agentsOf, isActive, isReachable, mainActionOf, workspaceLook } from '../status.ts';
import { hasOtherAgent, stateDetail } from './row-text.ts';

/** The columns: selection, name, status, last use, apps and actions. */
export const COLUMNS =
  'grid grid-cols-[auto_minmax(0,1fr)_auto] items-center gap-x-3 px-3 sm:gap-x-4 sm:px-4 md:grid-cols-[auto_minmax(0,1.3fr)_minmax(0,1fr)_auto] lg:grid-cols-[auto_minmax(0,1.3fr)_minmax(0,1fr)_7rem_15rem]';

/** Maximum number of apps in a row. The menu has all of them. */
const MAX_APPS = 3;

/** One workspace of the list. */
export const WorkspaceRow = memo(function WorkspaceRow({
  workspace,
  selected,
  onSelect,
  onAction,
  mine,
  may,
  showOrganization,
  serverVersion,
}: {
  workspace: Workspace;
  selected: boolean;
  onSelect: (workspace: Workspace, selected: boolean) => void;
  onAction: (workspace: Workspace, action: ActionName) => void;
  /** Whether it is the person's own: its owner's name says nothing new. */
  mine: boolean;
  /** What the person may do with it. Undefined until known. */
  may: WorkspacePermissions | undefined;
  showOrganization: boolean;
  serverVersion: string | undefined;
}) {
  const { name, owner_name: owner, outdated } = workspace;
  const look = workspaceLook(workspace);
  return (
    <div
      className={cx(
        COLUMNS,
        // in a phone's window the reason below the name takes the lines that it needs
        'min-h-(--row) border-line border-b max-sm:py-1 sm:h-(--row)',
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
        <Avatar name={workspace.template_name} src={workspace.template_icon} size={28} square />
        <div className="min-w-0 leading-5 in-data-[density=compact]:leading-4">
          <div className="flex min-w-0 items-center gap-1.5">
            <Link to={paths.workspace(workspace)} plain className="min-w-0 truncate font-medium hover:underline">
              {!mine && <span className="font-normal text-muted">{owner}/</span>}
              {name}
            </Link>
            {mine && <FavoriteButton workspace={workspace} />}
            {outdated && <Badge tone="warn">Outdated</Badge>}
          </div>
          <div className="flex flex-wrap gap-x-1.5 text-sm sm:flex-nowrap md:hidden">
            <Status tone={look.tone}>{look.text}</Status>
            <StateDetail workspace={workspace} />
          </div>
          <div className="hidden truncate text-muted text-sm md:block">
            {[
              workspace.template_display_name || workspace.template_name,
              showOrganization && workspace.organization_name,
              hasOtherAgent(workspace, serverVersion) && "agent not the server's version",
            ]
              .filter(Boolean)
              .join(' · ')}
          </div>
        </div>
      </div>
      <div className="hidden min-w-0 leading-5 md:block in-data-[density=compact]:leading-4">
        <Status tone={look.tone}>{look.text}</Status>
        <StateDetail workspace={workspace} />
      </div>
      <div className="hidden lg:block">
        <LastUsed workspace={workspace} />
      </div>
      <RowActions workspace={workspace} onAction={onAction} may={may} />
    </div>
  );
});

function StateDetail({ workspace }: { workspace: Workspace }) {
  const text = stateDetail(workspace, useNow(30_000));
  return text ? <div className="min-w-0 text-muted text-sm max-sm:line-clamp-3 sm:truncate">{text}</div> : null;
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
  may,
}: {
  workspace: Workspace;
  onAction: (workspace: Workspace, action: ActionName) => void;
  may: WorkspacePermissions | undefined;
}) {
  const agents = agentsOf(workspace.latest_build).filter(isReachable);
  const apps = agents
    .flatMap((agent) => agent.apps.map((app) => ({ app, agent })))
    .filter(({ app }) => !app.hidden && (may?.apps || app.sharing_level !== 'owner'));
  const first = may?.ssh ? agents[0] : undefined;
  const [editor] = first ? editorsOf(first) : [];
  const actions = actionsOf(workspace).filter((action) => isPermitted(action, may));
  const canConnect = first !== undefined || apps.length > 0;
  const connect = (
    <>
      {apps.map(({ app, agent }) => (
        <AppMenuItem key={app.id} app={app} workspace={workspace} agent={agent} />
      ))}
      {apps.length > 0 && first && <MenuSeparator />}
      {first && <ConnectItems workspace={workspace} agent={first} />}
    </>
  );
  return (
    <div className="flex items-center justify-end gap-0.5">
      <div className="hidden items-center gap-0.5 lg:flex">
        {apps.slice(0, MAX_APPS).map(({ app, agent }) => (
          <AppLink key={app.id} app={app} workspace={workspace} agent={agent} iconOnly />
        ))}
        {first && editor && (
          <IconButton
            icon={CodeXml}
            size="sm"
            label={`Open ${workspace.name} in ${EDITOR_NAMES[editor]}`}
            onClick={() => makeChange(() => openEditor({ editor, workspace, agent: first }))}
          />
        )}
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
      {canConnect && (
        <div className="max-sm:hidden">
          <Menu trigger={<IconButton icon={PlugZap} size="sm" label={`Connect to ${workspace.name}`} />}>
            {connect}
          </Menu>
        </div>
      )}
      <MainAction workspace={workspace} onAction={onAction} may={may} />
      <Menu
        trigger={
          <IconButton
            icon={Ellipsis}
            size="sm"
            label={`More actions for ${workspace.name}`}
            disabled={actions.length === 0 && !canConnect}
          />
        }
      >
        {canConnect && (
          <WhereNeeded always={actions.length === 0}>
            {connect}
            {actions.length > 0 && <MenuSeparator />}
          </WhereNeeded>
        )}
        {actions.map((action) => (
          <Fragment key={action}>
            {action === 'delete' && actions.length > 1 && <MenuSeparator />}
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
    </div>
  );
}

/**
 * The most useful action, such as start or stop. While a build is under way, the button keeps its place and the focus, and
 * does nothing: another action there would take a second click.
 */
function MainAction({
  workspace,
  onAction,
  may,
}: {
  workspace: Workspace;
  onAction: (workspace: Workspace, action: ActionName) => void;
  may: WorkspacePermissions | undefined;
}) {
  const action = mainActionOf(workspace);
  const busy = isActive(workspace.latest_build.status) && may?.update === true;
  if (!busy && !(action && isPermitted(action, may))) return <span className="size-7 shrink-0" />;
  const name = action ? ACTIONS[action].name : workspaceLook(workspace).text;
  const Icon = action && ACTIONS[action].icon;
  return (
    <button
      type="button"
      title={name}
      aria-label={`${name}${action ? '' : ':'} ${workspace.name}`}
      aria-disabled={busy || undefined}
      className={buttonClass('ghost', 'sm', true)}
      onClick={() => action && onAction(workspace, action)}
    >
      {Icon ? <Icon size={16} aria-hidden="true" /> : <Spinner />}
    </button>
  );
}

/** Entries that a phone's window needs: a wider one has a button for them. Otherwise a menu without others has them. */
const WhereNeeded = ({ always, children }: { always: boolean; children: ReactNode }) =>
  (useNarrow() || always) && children;
