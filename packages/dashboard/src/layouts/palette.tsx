import type { Workspace } from '@ropewalk/contract';
import { ownValue } from '@ropewalk/kit/own-value';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useLocation } from '@tanstack/react-router';
import { Command } from 'cmdk';
import {
  BookOpen,
  CalendarClock,
  CodeXml,
  Copy,
  FileText,
  HeartPulse,
  Keyboard,
  LayoutTemplate,
  Link2,
  LogOut,
  type LucideIcon,
  Monitor,
  Moon,
  Plus,
  ScrollText,
  Settings,
  SlidersHorizontal,
  SquareStack,
  SquareTerminal,
  Star,
  Sun,
} from 'lucide-react';
import { Dialog } from 'radix-ui';
import { type ReactNode, useDeferredValue, useState } from 'react';
import { errorLine } from '../api/errors.ts';
import { organizationsQuery, useMe } from '../api/me.ts';
import { useSitePermissions, workspacePermissions } from '../api/permissions.ts';
import { apiQuery, makeChange } from '../api/query.ts';
import { ACTIONS, isPermitted, useWorkspaceActions } from '../pages/workspaces/actions.tsx';
import { EDITOR_NAMES, editorsOf } from '../pages/workspaces/connect.ts';
import { copyAndTell, openEditor, sshCommand } from '../pages/workspaces/connect-menu.tsx';
import { setFavorite, workspaceByName } from '../pages/workspaces/queries.ts';
import { type ActionName, actionsOf, agentsOf, isReachable } from '../pages/workspaces/status.ts';
import { Avatar } from '../ui/avatar.tsx';
import { paths } from '../util/paths.ts';
import { useGo } from '../util/route.ts';
import { setTheme } from '../util/theme.ts';
import { PAGE_SHORTCUTS } from './shortcut-list.ts';
import { useSignOut } from './sign-out.ts';

const MAX_WORKSPACES = 8;

/** Finds workspaces, templates, pages and actions by typing. */
export default function Palette({ onClose, onShortcuts }: { onClose: () => void; onShortcuts: () => void }) {
  const [search, setSearch] = useState('');
  const text = useDeferredValue(search.trim());
  const may = useSitePermissions();
  const go = useGo();
  const signOut = useSignOut();
  const open = (to: string) => {
    onClose();
    go(to);
  };
  const here = useWorkspaceHere();
  // an action that asks first has its dialog here
  const actions = useWorkspaceActions({ onClosed: onClose });
  const run = (workspace: Workspace, action: ActionName) => {
    if (!actions.run(workspace, action)) onClose();
  };
  const actionItem = (workspace: Workspace) => (action: ActionName) => (
    <Item
      key={action}
      icon={ACTIONS[action].icon}
      value={`this workspace ${ACTIONS[action].name}`}
      onSelect={() => run(workspace, action)}
    >
      {ACTIONS[action].name}
    </Item>
  );
  // the server's search knows words in names only, so it gets the longest one
  const word = text.split(/[\s/]+/).reduce((longest, each) => (each.length > longest.length ? each : longest), '');
  const found = useQuery({
    ...apiQuery('GET /workspaces', [{ kind: 'workspace' }], {
      query: { q: word ? `name:${JSON.stringify(word)}` : 'owner:me', limit: MAX_WORKSPACES },
    }),
    placeholderData: keepPreviousData,
  });
  const workspaces = found.data?.workspaces;
  const templates = useQuery(apiQuery('GET /templates', [{ kind: 'template' }])).data;
  const organizations = useQuery(organizationsQuery).data ?? [];
  const settings = ['account', 'appearance', 'schedule', 'security', 'notifications', 'ssh-keys', 'tokens'];
  if (actions.asking) return actions.dialogs;
  return (
    <Dialog.Root open onOpenChange={(next) => !next && onClose()}>
      <Dialog.Portal>
        <Dialog.Overlay className="fixed inset-0 z-40 bg-black/40 dark:bg-black/60" />
        <Dialog.Content
          aria-describedby={undefined}
          className="fixed top-[12dvh] left-1/2 z-50 w-[min(38rem,calc(100vw-2rem))] -translate-x-1/2 overflow-hidden rounded-xl bg-raised shadow-float"
        >
          <Dialog.Title className="sr-only">Search and commands</Dialog.Title>
          <Command label="Search and commands" loop>
            <Command.Input
              autoFocus
              value={search}
              onValueChange={setSearch}
              placeholder="Search workspaces, templates, pages and actions…"
              className="h-12 w-full border-line border-b bg-transparent px-4 text-lg outline-none placeholder:text-faint"
            />
            <Command.List
              className="max-h-[min(26rem,60dvh)] overflow-y-auto p-2"
              // keyboards choose in it by the arrow keys, and scroll with them
              tabIndex={-1}
            >
              <Command.Empty className="px-3 py-8 text-center text-muted">
                {found.isError ? errorLine(found.error) : 'Nothing matches. Try a part of the name.'}
              </Command.Empty>
              {/* the first entry is chosen as it appears, so all of them appear together */}
              {!found.isPending && (
                <>
                  {here && (
                    <Group heading={`${here.workspace.owner_name}/${here.workspace.name}`}>
                      {here.actions.filter((action) => action !== 'delete').map(actionItem(here.workspace))}
                      <HereItems {...here} open={open} onClose={onClose} />
                      {/* last, where no hurried Enter chooses it */}
                      {here.actions.filter((action) => action === 'delete').map(actionItem(here.workspace))}
                    </Group>
                  )}
                  {workspaces && workspaces.length > 0 && (
                    <Group heading="Workspaces">
                      {workspaces.map((each) => (
                        <Item
                          key={each.id}
                          value={`workspace ${each.owner_name}/${each.name}`}
                          onSelect={() => open(paths.workspace(each))}
                          picture={<Avatar square size={18} name={each.name} src={each.template_icon} />}
                          hint={each.latest_build.status}
                        >
                          {each.owner_name}/{each.name}
                        </Item>
                      ))}
                    </Group>
                  )}
                  {templates && templates.length > 0 && text !== '' && (
                    <Group heading="Templates">
                      {templates.map((each) => (
                        <Item
                          key={each.id}
                          value={`template ${each.display_name} ${each.organization_name}/${each.name}`}
                          onSelect={() => open(paths.template(each))}
                          picture={<Avatar square size={18} name={each.name} src={each.icon} />}
                          hint={each.organization_display_name || each.organization_name}
                        >
                          {each.display_name || each.name}
                        </Item>
                      ))}
                    </Group>
                  )}
                  <Group heading="Actions">
                    {templates && templates.length > 0 && (
                      <Item icon={Plus} value="create new workspace" onSelect={() => open(paths.templates())}>
                        Create a workspace
                      </Item>
                    )}
                    {may.createTemplate && (
                      <Item icon={Plus} value="create new template" onSelect={() => open(paths.newTemplate())}>
                        Create a template
                      </Item>
                    )}
                    {may.createUser && (
                      <Item icon={Plus} value="create new user" onSelect={() => open(paths.newUser())}>
                        Create a user
                      </Item>
                    )}
                    <Item icon={Plus} value="create new token" onSelect={() => open(paths.newToken())}>
                      Create a token
                    </Item>
                    {(['light', 'dark', 'auto'] as const).map((theme) => (
                      <Item
                        key={theme}
                        icon={{ light: Sun, dark: Moon, auto: Monitor }[theme]}
                        value={`theme ${theme === 'auto' ? 'system' : theme} appearance`}
                        onSelect={() => {
                          setTheme(theme);
                          onClose();
                        }}
                      >
                        {theme === 'auto' ? 'Theme of the system' : theme === 'light' ? 'Light theme' : 'Dark theme'}
                      </Item>
                    ))}
                    <Item icon={Keyboard} value="keyboard shortcuts help" onSelect={onShortcuts} hint="?">
                      Keyboard shortcuts
                    </Item>
                    <Item icon={LogOut} value="sign out log out" onSelect={() => signOut.mutate()}>
                      Sign out
                    </Item>
                  </Group>
                  <Group heading="Pages">
                    {PAGE_SHORTCUTS.filter(({ needs }) => !needs || may[needs]).map((page) => (
                      <Item
                        key={page.to}
                        icon={ownValue(PAGE_ICONS, page.keys) ?? FileText}
                        value={`page ${page.name}`}
                        hint={page.keys}
                        onSelect={() => open(page.to)}
                      >
                        {page.name}
                      </Item>
                    ))}
                    {may.readMembersAnywhere &&
                      text !== '' &&
                      organizations.map((each) => (
                        <Item
                          key={each.id}
                          value={`organization ${each.display_name} ${each.name}`}
                          picture={<Avatar square size={18} name={each.name} src={each.icon} />}
                          onSelect={() => open(paths.organization(each.name))}
                        >
                          {each.display_name || each.name}
                        </Item>
                      ))}
                    {text !== '' &&
                      settings.map((each) => (
                        <Item
                          key={each}
                          icon={Settings}
                          value={`settings ${each}`}
                          onSelect={() => open(paths.settings(each))}
                        >
                          Settings: {each.replace('-', ' ').replace('ssh keys', 'SSH key')}
                        </Item>
                      ))}
                    <Item icon={SquareTerminal} value="install command line cli" onSelect={() => open(paths.install())}>
                      Install the command line
                    </Item>
                    <Item icon={BookOpen} value="api reference openapi" onSelect={() => open(paths.apiReference())}>
                      API reference
                    </Item>
                  </Group>
                </>
              )}
            </Command.List>
          </Command>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

const PAGE_ICONS: Readonly<Record<string, LucideIcon>> = {
  'g w': SquareStack,
  'g t': LayoutTemplate,
  'g s': Settings,
  'g h': HeartPulse,
};

function Group({ heading, children }: { heading: string; children: ReactNode }) {
  return (
    <Command.Group
      heading={heading}
      className="[&_[cmdk-group-heading]]:px-2 [&_[cmdk-group-heading]]:pt-2 [&_[cmdk-group-heading]]:pb-1 [&_[cmdk-group-heading]]:font-medium [&_[cmdk-group-heading]]:text-muted [&_[cmdk-group-heading]]:text-xs"
    >
      {children}
    </Command.Group>
  );
}

/** What else a person does with the workspace behind the palette: connect to it, mark it, see its pages. */
function HereItems({
  workspace,
  agent,
  may,
  open,
  onClose,
}: WorkspaceHere & { open: (to: string) => void; onClose: () => void }) {
  const me = useMe();
  const { favorite, latest_build: build } = workspace;
  const then = (act: () => void) => () => {
    act();
    onClose();
  };
  const copy = (text: string) => then(() => void copyAndTell(text));
  const entries: (Entry | false | undefined)[] = [
    agent?.display_apps.includes('web_terminal') && [
      SquareTerminal,
      'Open a terminal',
      () => open(paths.terminal(workspace, agent.name)),
    ],
    ...(agent
      ? editorsOf(agent).map(
          (editor): Entry => [
            CodeXml,
            `Open in ${EDITOR_NAMES[editor]}`,
            then(() => makeChange(() => openEditor({ editor, workspace, agent }))),
          ],
        )
      : []),
    agent?.display_apps.includes('ssh_helper') && [
      Copy,
      'Copy the SSH command',
      copy(sshCommand(workspace, agent, me)),
    ],
    workspace.owner_id === me.id && [
      Star,
      favorite ? 'Remove from favorites' : 'Add to favorites',
      then(() => makeChange(() => setFavorite(workspace, !favorite))),
    ],
    [ScrollText, 'Build log', () => open(paths.workspaceBuild(workspace, build.build_number))],
    may.update && [SlidersHorizontal, 'Parameters', () => open(paths.workspaceParameters(workspace))],
    may.update && [CalendarClock, 'Schedule', () => open(paths.workspaceSchedule(workspace))],
    [Link2, 'Copy the link to the workspace', copy(`${location.origin}${paths.workspace(workspace)}`)],
  ];
  return entries.map(
    (entry) =>
      entry && (
        <Item key={entry[1]} icon={entry[0]} value={`this workspace ${entry[1]}`} onSelect={entry[2]}>
          {entry[1]}
        </Item>
      ),
  );
}
type Entry = [icon: LucideIcon, name: string, onSelect: () => void];
type WorkspaceHere = NonNullable<ReturnType<typeof useWorkspaceHere>>;

/** The workspace of the page behind the palette, with its actions and its agent for this person. */
function useWorkspaceHere() {
  const { pathname } = useLocation();
  const [, owner = '', name = ''] = /^\/@([^/]+)\/([^/.]+)/.exec(pathname) ?? [];
  const workspace = useQuery({ ...workspaceByName(decodeURIComponent(owner), name), enabled: name !== '' }).data;
  const may = useQuery({
    ...workspacePermissions(workspace ?? { id: '', owner_id: '', organization_id: '' }),
    enabled: workspace !== undefined,
  }).data;
  if (!workspace || !may) return undefined;
  return {
    workspace,
    may,
    actions: actionsOf(workspace).filter((action) => isPermitted(action, may)),
    agent: may.ssh ? agentsOf(workspace.latest_build).find(isReachable) : undefined,
  };
}

function Item({
  icon: Icon,
  picture,
  value,
  hint,
  onSelect,
  children,
}: {
  icon?: LucideIcon;
  picture?: ReactNode;
  /** What the search compares. */
  value: string;
  hint?: string | undefined;
  onSelect: () => void;
  children: ReactNode;
}) {
  return (
    <Command.Item
      value={value}
      onSelect={onSelect}
      className="flex cursor-default items-center gap-2.5 rounded-md px-2 py-2 data-[selected=true]:bg-active"
    >
      {picture ?? (Icon && <Icon size={16} aria-hidden="true" className="shrink-0 text-muted" />)}
      <span className="min-w-0 flex-1 truncate">{children}</span>
      {hint && <span className="shrink-0 text-muted text-xs">{hint}</span>}
    </Command.Item>
  );
}
