import type { Workspace, WorkspaceAgent, WorkspaceApp } from '@ropewalk/contract';
import { AppWindow, SquareTerminal } from 'lucide-react';
import { lazy, type ReactNode, type RefObject, Suspense, useLayoutEffect, useRef } from 'react';
import { call } from '../../api/client.ts';
import { useChange } from '../../api/query.ts';
import { useAppServer } from '../../regions/store.ts';
import { Avatar } from '../../ui/avatar.tsx';
import { buttonClass } from '../../ui/button.tsx';
import { cx } from '../../ui/classes.ts';
import { Link } from '../../ui/link.tsx';
import { Markdown } from '../../ui/markdown.tsx';
import { MenuItem } from '../../ui/menu.tsx';
import { appAddress, isSafeAddress, needsToken } from './connect.ts';

const Tooltip = lazy(async () => ({ default: (await import('../../ui/tooltip.tsx')).Tooltip }));

export const appName = (app: WorkspaceApp): string => app.display_name || app.slug;

function AppIcon({ app, size = 16 }: { app: WorkspaceApp; size?: number }) {
  if (app.icon) return <Avatar name={appName(app)} src={app.icon} size={size} square />;
  const Icon = app.command ? SquareTerminal : AppWindow;
  return <Icon size={size} aria-hidden="true" />;
}

const HEALTH: Partial<Record<WorkspaceApp['health'], { dot: string; text: string }>> = {
  initializing: { dot: 'bg-busy', text: 'starting' },
  unhealthy: { dot: 'bg-bad', text: 'unhealthy' },
};

/** Opens an app that asks for a session token. The server decides whether it gets one. */
function useOpenWithToken() {
  return useChange(async ({ agent, app }: { agent: WorkspaceAgent; app: WorkspaceApp }) => {
    const params = { workspaceagent: agent.id };
    const { url } = await call('POST /workspaceagents/{workspaceagent}/app-link', { params, body: { slug: app.slug } });
    location.assign(url);
  });
}

interface AppOf {
  app: WorkspaceApp;
  workspace: Workspace;
  agent: WorkspaceAgent;
}

/** An app's name with its health, and where it opens or why it cannot. */
function useApp({ app, workspace, agent }: AppOf) {
  const address = appAddress(app, workspace, agent, useAppServer());
  const health = HEALTH[app.health];
  const name = health ? `${appName(app)} (${health.text})` : appName(app);
  if ('problem' in address) return { name, health, href: undefined, problem: address.problem };
  if (isSafeAddress(address.href)) return { name, health, href: address.href, problem: undefined };
  return { name, health, href: undefined, problem: 'The template gives this app an address that cannot be opened.' };
}

const openSlimWindow = (app: WorkspaceApp, href: string) =>
  void window.open(href, `app-${app.id}`, 'popup,width=900,height=640');

/** An app as an entry of a menu. */
export function AppMenuItem({ app, workspace, agent }: AppOf) {
  const open = useOpenWithToken();
  const { name, href, problem } = useApp({ app, workspace, agent });
  const onSelect = () => {
    if (href === undefined) return;
    if (app.external && needsToken(href)) open.mutate({ agent, app });
    else if (app.open_in === 'slim-window') openSlimWindow(app, href);
    else window.open(href, '_blank', app.external ? 'noreferrer' : '');
  };
  return (
    <MenuItem disabled={href === undefined} onSelect={onSelect}>
      <AppIcon app={app} size={15} />
      <span className="min-w-0">
        {name}
        {problem && <span className="block text-muted text-sm">{problem}</span>}
      </span>
    </MenuItem>
  );
}

/** A link to an app. In a row of a list only its icon is visible. */
export function AppLink({
  app,
  workspace,
  agent,
  iconOnly = false,
  disabled = false,
}: AppOf & {
  iconOnly?: boolean;
  disabled?: boolean;
}) {
  const open = useOpenWithToken();
  const { name, health, href, problem } = useApp({ app, workspace, agent });
  const content: ReactNode = (
    <>
      <span className="relative">
        <AppIcon app={app} />
        {health && (
          <span
            aria-hidden="true"
            className={cx('-right-1 -bottom-0.5 absolute size-2 rounded-full ring-2 ring-surface', health.dot)}
          />
        )}
      </span>
      {iconOnly ? <span className="sr-only">{name}</span> : <span className="max-w-44 truncate">{name}</span>}
    </>
  );
  const className = iconOnly ? buttonClass('ghost', 'sm', true) : buttonClass('default', 'md');
  if (href === undefined || disabled)
    return (
      <Explained content={problem ?? 'Opens once the workspace runs.'}>
        <button type="button" aria-disabled="true" className={className}>
          {content}
        </button>
      </Explained>
    );
  const title = iconOnly && !app.tooltip ? name : undefined;
  const explanation = app.tooltip ? <Markdown text={app.tooltip} inline /> : undefined;
  if (app.external && needsToken(href))
    return (
      <Explained content={explanation}>
        <button type="button" className={className} title={title} onClick={() => open.mutate({ agent, app })}>
          {content}
        </button>
      </Explained>
    );
  if (app.command)
    return (
      <Explained content={explanation}>
        <Link to={href} plain className={className} title={title} target="_blank">
          {content}
        </Link>
      </Explained>
    );
  const slim = app.open_in === 'slim-window';
  return (
    <Explained content={explanation}>
      <a
        href={href}
        className={className}
        title={title}
        target="_blank"
        rel={app.external ? 'noreferrer' : 'opener'}
        onClick={(event) => {
          if (!slim || event.metaKey || event.ctrlKey) return;
          event.preventDefault();
          openSlimWindow(app, href);
        }}
      >
        {content}
      </a>
    </Explained>
  );
}

interface Attention {
  hovered: boolean;
  focused: boolean;
}

/** An element without its tooltip, whose code loads. Remembers whether a person points at it. */
function WithoutTooltip({ seen, children }: { seen: RefObject<Attention>; children: ReactNode }) {
  const place = useRef<HTMLSpanElement>(null);
  useLayoutEffect(() => {
    const link = place.current!.firstElementChild!;
    return () => {
      seen.current = { hovered: link.matches(':hover'), focused: link === document.activeElement };
    };
  }, [seen]);
  return (
    <span ref={place} className="contents">
      {children}
    </span>
  );
}

interface TooltipProps {
  seen: RefObject<Attention>;
  content: ReactNode;
  children: ReactNode;
}

/** The same element with its tooltip. It replaces the other one, so it takes over the focus and the pointer. */
function WithTooltip({ seen, content, children }: TooltipProps) {
  const place = useRef<HTMLSpanElement>(null);
  useLayoutEffect(() => {
    const link = place.current!.firstElementChild as HTMLElement;
    if (seen.current.focused) link.focus();
    // a browser reports a pointer only when it moves
    if (seen.current.hovered) link.dispatchEvent(new PointerEvent('pointermove', { bubbles: true }));
  }, [seen]);
  return (
    <span ref={place} className="contents">
      <Tooltip content={content}>{children}</Tooltip>
    </span>
  );
}

/** An element with a tooltip, if there is a text for one. */
function Explained({ content, children }: { content: ReactNode; children: ReactNode }) {
  const seen = useRef<Attention>({ hovered: false, focused: false });
  if (!content) return children;
  return (
    <Suspense fallback={<WithoutTooltip seen={seen}>{children}</WithoutTooltip>}>
      <WithTooltip seen={seen} content={content}>
        {children}
      </WithTooltip>
    </Suspense>
  );
}
