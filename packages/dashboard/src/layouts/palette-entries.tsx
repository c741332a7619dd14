import type { Organization, Template, Workspace } from '@ropewalk/contract';
import { ownValue } from '@ropewalk/kit/own-value';
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
import type { ReactNode } from 'react';
import type { SitePermissions } from '../api/permissions.ts';
import { makeChange } from '../api/query.ts';
import { ACTIONS } from '../pages/workspaces/actions.tsx';
import { EDITOR_NAMES, editorsOf } from '../pages/workspaces/connect.ts';
import { copyAndTell, openEditor, sshCommand } from '../pages/workspaces/connect-menu.tsx';
import { setFavorite } from '../pages/workspaces/queries.ts';
import type { ActionName } from '../pages/workspaces/status.ts';
import { Avatar } from '../ui/avatar.tsx';
import { paths } from '../util/paths.ts';
import { setTheme } from '../util/theme.ts';
import { PAGE_SHORTCUTS } from './shortcut-list.ts';
import type { WorkspaceHere } from './use-workspace-here.ts';

/** An entry of the palette. */
export interface Entry {
  name: string;
  /** What the search compares. No two entries have the same. */
  value: string;
  icon?: LucideIcon;
  picture?: ReactNode;
  hint?: string | undefined;
  /** What the person must be permitted, to see it. */
  needs?: keyof SitePermissions | undefined;
  run: () => void;
}

/** Opens a page, and closes the palette. */
type Open = (to: string) => void;

export const workspaceEntries = (workspaces: readonly Workspace[], open: Open): Entry[] =>
  workspaces.map((each) => ({
    name: `${each.owner_name}/${each.name}`,
    value: `workspace ${each.owner_name}/${each.name}`,
    picture: <Avatar square size={18} name={each.name} src={each.template_icon} />,
    hint: each.latest_build.status,
    run: () => open(paths.workspace(each)),
  }));

export const templateEntries = (templates: readonly Template[], open: Open): Entry[] =>
  templates.map((each) => ({
    name: each.display_name || each.name,
    value: `template ${each.display_name} ${each.organization_name}/${each.name}`,
    picture: <Avatar square size={18} name={each.name} src={each.icon} />,
    hint: each.organization_display_name || each.organization_name,
    run: () => open(paths.template(each)),
  }));

export const createEntries = (open: Open): Entry[] => [
  {
    name: 'Create a template',
    value: 'create new template',
    icon: Plus,
    needs: 'createTemplate',
    run: () => open(paths.newTemplate()),
  },
  {
    name: 'Create a user',
    value: 'create new user',
    icon: Plus,
    needs: 'createUser',
    run: () => open(paths.newUser()),
  },
  { name: 'Create a token', value: 'create new token', icon: Plus, run: () => open(paths.newToken()) },
];

/** For a person who sees a template. */
export const createWorkspaceEntry = (open: Open): Entry => ({
  name: 'Create a workspace',
  value: 'create new workspace',
  icon: Plus,
  needs: 'createOwnWorkspace',
  run: () => open(paths.templates()),
});

const THEMES = [
  { theme: 'light', name: 'Light theme', value: 'theme light appearance', icon: Sun },
  { theme: 'dark', name: 'Dark theme', value: 'theme dark appearance', icon: Moon },
  { theme: 'auto', name: 'Theme of the system', value: 'theme system appearance', icon: Monitor },
] as const;

export const themeEntries = (close: () => void): Entry[] =>
  THEMES.map(({ theme, ...entry }) => ({
    ...entry,
    run() {
      setTheme(theme);
      close();
    },
  }));

export const sessionEntries = (showShortcuts: () => void, signOut: () => void): Entry[] => [
  {
    name: 'Keyboard shortcuts',
    value: 'keyboard shortcuts help',
    icon: Keyboard,
    hint: '?',
    run: showShortcuts,
  },
  { name: 'Sign out', value: 'sign out log out', icon: LogOut, run: signOut },
];

const PAGE_ICONS: Readonly<Record<string, LucideIcon>> = {
  'g w': SquareStack,
  'g t': LayoutTemplate,
  'g s': Settings,
  'g h': HeartPulse,
};

export const pageEntries = (open: Open): Entry[] =>
  PAGE_SHORTCUTS.map(({ keys, name, to, needs }) => ({
    name,
    value: `page ${name}`,
    icon: ownValue(PAGE_ICONS, keys) ?? FileText,
    hint: keys,
    needs,
    run: () => open(to),
  }));

export const organizationEntries = (organizations: readonly Organization[], open: Open): Entry[] =>
  organizations.map((each) => ({
    name: each.display_name || each.name,
    value: `organization ${each.display_name} ${each.name}`,
    picture: <Avatar square size={18} name={each.name} src={each.icon} />,
    needs: 'readMembersAnywhere',
    run: () => open(paths.organization(each.name)),
  }));

const SETTINGS = [
  'account',
  'appearance',
  'schedule',
  'security',
  'notifications',
  'ssh-keys',
  'secrets',
  'tokens',
  'oauth2-provider',
];

export const settingsEntries = (open: Open): Entry[] =>
  SETTINGS.map((each) => ({
    name: `Settings: ${each.replace('-', ' ').replace('ssh keys', 'SSH key').replace('oauth2 provider', 'OAuth2 apps')}`,
    value: `settings ${each}`,
    icon: Settings,
    run: () => open(paths.settings(each)),
  }));

export const helpEntries = (open: Open): Entry[] => [
  {
    name: 'Install the command line',
    value: 'install command line cli',
    icon: SquareTerminal,
    run: () => open(paths.install()),
  },
  { name: 'API reference', value: 'api reference openapi', icon: BookOpen, run: () => open(paths.apiReference()) },
];

/** What a person does with the workspace behind the palette: act on it, connect to it, mark it, see its pages. */
export function hereEntries(
  { workspace, actions, agent, may, me }: WorkspaceHere,
  open: Open,
  close: () => void,
  act: (workspace: Workspace, action: ActionName) => void,
): Entry[] {
  const entry = (icon: LucideIcon, name: string, run: () => void): Entry => ({
    name,
    value: `this workspace ${name}`,
    icon,
    run,
  });
  const actionEntry = (action: ActionName) =>
    entry(ACTIONS[action].icon, ACTIONS[action].name, () => act(workspace, action));
  const then = (run: () => void) => () => {
    run();
    close();
  };
  const copy = (text: string) => then(() => void copyAndTell(text));
  const { favorite, latest_build: build } = workspace;
  const editors = agent ? editorsOf(agent).map((editor) => ({ agent, editor })) : [];
  const entries = [
    ...actions.filter((action) => action !== 'delete').map(actionEntry),
    agent?.display_apps.includes('web_terminal') &&
      entry(SquareTerminal, 'Open a terminal', () => open(paths.terminal(workspace, agent.name))),
    ...editors.map(({ agent, editor }) =>
      entry(
        CodeXml,
        `Open in ${EDITOR_NAMES[editor]}`,
        then(() => makeChange(() => openEditor({ editor, workspace, agent }))),
      ),
    ),
    agent?.display_apps.includes('ssh_helper') &&
      entry(Copy, 'Copy the SSH command', copy(sshCommand(workspace, agent, me))),
    workspace.owner_id === me.id &&
      entry(
        Star,
        favorite ? 'Remove from favorites' : 'Add to favorites',
        then(() => makeChange(() => setFavorite(workspace, !favorite))),
      ),
    entry(ScrollText, 'Build log', () => open(paths.workspaceBuild(workspace, build.build_number))),
    may.update && entry(SlidersHorizontal, 'Parameters', () => open(paths.workspaceParameters(workspace))),
    may.update && entry(CalendarClock, 'Schedule', () => open(paths.workspaceSchedule(workspace))),
    entry(Link2, 'Copy the link to the workspace', copy(`${location.origin}${paths.workspace(workspace)}`)),
    // last, where no hurried Enter chooses it
    ...actions.filter((action) => action === 'delete').map(actionEntry),
  ];
  return entries.filter((each) => typeof each === 'object');
}
