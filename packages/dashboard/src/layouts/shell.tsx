import { useQuery, useSuspenseQuery } from '@tanstack/react-query';
import { Outlet, useLocation } from '@tanstack/react-router';
import {
  BookOpen,
  ChevronDown,
  Keyboard,
  LogOut,
  Menu as MenuIcon,
  Search,
  Settings,
  SquareTerminal,
} from 'lucide-react';
import { lazy, Suspense, useEffect, useState } from 'react';
import { startEvents, stopEvents } from '../api/events.ts';
import { appearanceQuery, buildInfoQuery, meQuery, organizationsQuery, useMe } from '../api/me.ts';
import { type SitePermissions, sitePermissions, useSitePermissions } from '../api/permissions.ts';
import { queryClient } from '../api/query.ts';
import { Avatar } from '../ui/avatar.tsx';
import { IconButton } from '../ui/button.tsx';
import { cx } from '../ui/classes.ts';
import { Link } from '../ui/link.tsx';
import { Menu, MenuItem, MenuLabel, MenuSeparator } from '../ui/menu.tsx';
import { SkeletonLines } from '../ui/states.tsx';
import { paths } from '../util/paths.ts';
import { setTheme, theme, themeOf } from '../util/theme.ts';
import { Banners } from './banners.tsx';
import { InboxButton } from './inbox-button.tsx';
import { RegionsButton } from './regions-button.tsx';
import { useShortcuts } from './shortcuts.ts';
import { useSignOut } from './sign-out.ts';

// at the same time as the page's own code and data
for (const query of [meQuery, appearanceQuery, buildInfoQuery, organizationsQuery, sitePermissions])
  void queryClient.prefetchQuery(query as never);

const loadPalette = () => import('./palette.tsx');
const Palette = lazy(loadPalette);
const ShortcutHelp = lazy(() => import('./shortcut-help.tsx'));

/** The stream begins after the first page is there, since its worker takes the processor. In ms. */
const EVENTS_DELAY_MS = 500;

/** The frame around the pages of a signed-in person: navigation, banners, the page. */
export default function Shell() {
  const { theme_preference: preference = '' } = useSuspenseQuery(meQuery).data;
  useEffect(() => {
    const chosen = themeOf(preference);
    if (chosen && chosen !== theme()) setTheme(chosen);
  }, [preference]);
  useEffect(() => {
    const starting = setTimeout(startEvents, EVENTS_DELAY_MS);
    return () => {
      clearTimeout(starting);
      stopEvents();
    };
  }, []);
  const [shown, setShown] = useState<'palette' | 'shortcuts'>();
  useShortcuts(setShown);
  const close = () => setShown(undefined);
  return (
    <div className="flex min-h-dvh flex-col">
      <a
        href="#page"
        className="sr-only focus:not-sr-only focus:absolute focus:top-2 focus:left-2 focus:z-60 focus:rounded-md focus:bg-raised focus:px-3 focus:py-2 focus:shadow-float"
      >
        Skip to the page
      </a>
      <Banners />
      <NavigationBar onSearch={() => setShown('palette')} onShortcuts={() => setShown('shortcuts')} />
      <main id="page" className="flex min-w-0 flex-1 flex-col">
        <Suspense
          fallback={
            <div className="mx-auto w-full max-w-7xl px-6 py-8">
              <SkeletonLines lines={6} />
            </div>
          }
        >
          <Outlet />
        </Suspense>
      </main>
      <Suspense>
        {shown === 'palette' && <Palette onClose={close} onShortcuts={() => setShown('shortcuts')} />}
        {shown === 'shortcuts' && <ShortcutHelp onClose={close} />}
      </Suspense>
    </div>
  );
}

/** The administration entries that a person may open. */
export function administrationEntries(may: Partial<SitePermissions>, organizations: readonly { name: string }[]) {
  const first = organizations[0];
  return [
    may.readDeploymentConfig && { name: 'Deployment', to: paths.deployment(), below: '/deployment' },
    may.readUsers && { name: 'Users', to: paths.users(), below: '/deployment/users' },
    may.readMembersAnywhere &&
      first && { name: 'Organizations', to: paths.organization(first.name), below: '/organizations' },
    may.readAuditLog && { name: 'Audit log', to: paths.audit(), below: '/audit' },
    may.readAuditLog && { name: 'Connection log', to: paths.connectionLog(), below: '/connectionlog' },
    may.readHealth && { name: 'Health', to: paths.health(), below: '/health' },
  ].filter((entry) => entry !== false && entry !== undefined);
}

function NavigationBar({ onSearch, onShortcuts }: { onSearch: () => void; onShortcuts: () => void }) {
  const may = useSitePermissions();
  const organizations = useQuery(organizationsQuery).data ?? [];
  const appearance = useQuery(appearanceQuery).data;
  const administration = administrationEntries(may, organizations);
  const { pathname } = useLocation();
  const main = [
    { name: 'Workspaces', to: paths.workspaces(), active: pathname.startsWith('/workspaces') || /^\/@/.test(pathname) },
    ...(appearance?.tasks_visible ? [{ name: 'Tasks', to: paths.tasks(), active: pathname.startsWith('/tasks') }] : []),
    { name: 'Templates', to: paths.templates(), active: /^\/(templates|starter-templates)/.test(pathname) },
  ];
  const links = (appearance?.support_links ?? []).filter(({ location }) => location === 'navbar');
  const inAdministration = administration.some(({ below }) => pathname.startsWith(below));
  const tab = (active: boolean) =>
    cx(
      'flex h-8 items-center gap-1 rounded-md px-2.5 font-medium transition-colors',
      active ? 'bg-active text-text' : 'text-muted hover:bg-hover hover:text-text',
    );
  return (
    <header className="sticky top-0 z-30 border-line border-b bg-page/95 backdrop-blur-sm">
      <div className="flex h-13 items-center gap-2 px-4 sm:px-6">
        <Link
          to={paths.workspaces()}
          plain
          className="mr-2 flex items-center gap-2 font-semibold text-lg"
          aria-label={`${appearance?.application_name || 'Ropewalk'}: home`}
        >
          {appearance?.logo_url ? (
            <img src={appearance.logo_url} alt="" className="h-6 max-w-32 object-contain" />
          ) : (
            <img src="/favicon.svg" alt="" width={24} height={24} />
          )}
          <span className="hidden sm:inline">{appearance?.application_name || 'Ropewalk'}</span>
        </Link>
        <nav aria-label="Main" className="hidden items-center gap-1 sm:flex">
          {main.map(({ name, to, active }) => (
            <Link key={to} to={to} plain className={tab(active)} aria-current={active ? 'page' : undefined}>
              {name}
            </Link>
          ))}
          {administration.length > 0 && (
            <Menu
              align="start"
              trigger={
                <button type="button" className={tab(inAdministration)}>
                  Admin
                  <ChevronDown size={14} aria-hidden="true" />
                </button>
              }
            >
              {administration.map(({ name, to }) => (
                <MenuItem key={to} to={to}>
                  {name}
                </MenuItem>
              ))}
            </Menu>
          )}
          {links.map(({ name, target }) => (
            <a key={target} href={target} className={tab(false)}>
              {name}
            </a>
          ))}
        </nav>
        <div className="flex-1" />
        <button
          type="button"
          onClick={onSearch}
          onPointerEnter={() => void loadPalette()}
          aria-keyshortcuts="Control+K Meta+K"
          className="flex h-8 items-center gap-2 rounded-md border border-line-strong bg-surface px-2 text-muted transition-colors hover:bg-hover hover:text-text lg:w-56"
        >
          <Search size={15} aria-hidden="true" />
          <span className="sr-only lg:not-sr-only lg:flex-1 lg:text-left">Search</span>
          <kbd className="hidden rounded-sm border border-line px-1 font-sans text-xs lg:inline">Ctrl K</kbd>
        </button>
        <RegionsButton />
        <InboxButton />
        <UserMenu onShortcuts={onShortcuts} />
        <div className="sm:hidden">
          <Menu trigger={<IconButton icon={MenuIcon} label="Navigation" />}>
            {[...main, ...administration].map(({ name, to }) => (
              <MenuItem key={to} to={to}>
                {name}
              </MenuItem>
            ))}
            {links.map(({ name, target }) => (
              <MenuItem key={target} href={target}>
                {name}
              </MenuItem>
            ))}
          </Menu>
        </div>
      </div>
    </header>
  );
}

function UserMenu({ onShortcuts }: { onShortcuts: () => void }) {
  const me = useMe();
  const appearance = useQuery(appearanceQuery).data;
  const version = useQuery(buildInfoQuery).data?.version;
  const signOut = useSignOut();
  return (
    <Menu
      trigger={
        <button type="button" aria-label="Your account" className="rounded-full">
          <Avatar name={me.username} src={me.avatar_url} />
        </button>
      }
    >
      <MenuLabel>
        <div className="truncate font-medium text-text">{me.name || me.username}</div>
        <div className="truncate">{me.email}</div>
      </MenuLabel>
      <MenuSeparator />
      <MenuItem icon={Settings} to={paths.settings()}>
        Account settings
      </MenuItem>
      <MenuItem icon={SquareTerminal} to={paths.install()}>
        Install the command line
      </MenuItem>
      <MenuItem icon={BookOpen} to={paths.apiReference()}>
        API reference
      </MenuItem>
      <MenuItem icon={Keyboard} onSelect={onShortcuts}>
        Keyboard shortcuts
      </MenuItem>
      {(appearance?.support_links ?? [])
        .filter(({ location }) => location !== 'navbar')
        .map((link) => (
          <MenuItem key={link.target} href={link.target}>
            {link.name}
          </MenuItem>
        ))}
      <MenuSeparator />
      <MenuItem icon={LogOut} onSelect={() => signOut.mutate()}>
        Sign out
      </MenuItem>
      {version && <MenuLabel>{version}</MenuLabel>}
    </Menu>
  );
}
