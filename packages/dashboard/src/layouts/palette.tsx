import type { Workspace } from '@ropewalk/contract';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Command } from 'cmdk';
import { Dialog } from 'radix-ui';
import { useDeferredValue, useState } from 'react';
import { errorLine } from '../api/errors.ts';
import { organizationsQuery } from '../api/me.ts';
import { type SitePermissions, useSitePermissions } from '../api/permissions.ts';
import { apiQuery } from '../api/query.ts';
import { useWorkspaceActions } from '../pages/workspaces/actions.tsx';
import type { ActionName } from '../pages/workspaces/status.ts';
import { useGo } from '../util/route.ts';
import {
  createEntries,
  createWorkspaceEntry,
  type Entry,
  helpEntries,
  hereEntries,
  organizationEntries,
  pageEntries,
  sessionEntries,
  settingsEntries,
  templateEntries,
  themeEntries,
  workspaceEntries,
} from './palette-entries.tsx';
import { useSignOut } from './sign-out.ts';
import { useWorkspaceHere } from './use-workspace-here.ts';

const MAX_WORKSPACES = 8;

/** What the palette offers for a text, apart from the entries that everyone has. */
function useFound(text: string) {
  // the server's search knows words in names only, so it gets the longest one
  const word = text.split(/[\s/]+/).reduce((longest, each) => (each.length > longest.length ? each : longest), '');
  const workspaces = useQuery({
    ...apiQuery('GET /workspaces', [{ kind: 'workspace' }], {
      query: { q: word ? `name:${JSON.stringify(word)}` : 'owner:me', limit: MAX_WORKSPACES },
    }),
    placeholderData: keepPreviousData,
  });
  return {
    workspaces: workspaces.data?.workspaces ?? [],
    templates: useQuery(apiQuery('GET /templates', [{ kind: 'template' }])).data ?? [],
    organizations: useQuery(organizationsQuery).data ?? [],
    isPending: workspaces.isPending,
    problem: workspaces.isError ? errorLine(workspaces.error) : undefined,
  };
}

const permitted = (entries: readonly Entry[], may: Partial<SitePermissions>): Entry[] =>
  entries.filter(({ needs }) => !needs || may[needs]);

/** Finds workspaces, templates, pages and actions by typing. */
export default function Palette({ onClose, onShortcuts }: { onClose: () => void; onShortcuts: () => void }) {
  const [search, setSearch] = useState('');
  const text = useDeferredValue(search.trim());
  const may = useSitePermissions();
  const found = useFound(text);
  const here = useWorkspaceHere();
  const go = useGo();
  const signOut = useSignOut();
  // an action that asks first has its dialog here
  const actions = useWorkspaceActions({ onClosed: onClose });
  if (actions.asking) return actions.dialogs;
  const open = (to: string) => {
    onClose();
    go(to);
  };
  const act = (workspace: Workspace, action: ActionName) => {
    if (!actions.run(workspace, action)) onClose();
  };
  const groups = [
    {
      heading: here ? `${here.workspace.owner_name}/${here.workspace.name}` : '',
      entries: here ? hereEntries(here, open, onClose, act) : [],
    },
    { heading: 'Workspaces', entries: workspaceEntries(found.workspaces, open) },
    { heading: 'Templates', entries: text === '' ? [] : templateEntries(found.templates, open) },
    {
      heading: 'Actions',
      entries: [
        ...(found.templates.length > 0 ? [createWorkspaceEntry(open)] : []),
        ...createEntries(open),
        ...themeEntries(onClose),
        ...sessionEntries(onShortcuts, () => signOut.mutate()),
      ],
    },
    {
      heading: 'Pages',
      entries: [
        ...pageEntries(open),
        ...(text === '' ? [] : [...organizationEntries(found.organizations, open), ...settingsEntries(open)]),
        ...helpEntries(open),
      ],
    },
  ];
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
                {found.problem ?? 'Nothing matches. Try a part of the name.'}
              </Command.Empty>
              {/* the first entry is chosen as it appears, so all of them appear together */}
              {!found.isPending &&
                groups.map(({ heading, entries }) => (
                  <Group key={heading} heading={heading} entries={permitted(entries, may)} />
                ))}
            </Command.List>
          </Command>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function Group({ heading, entries }: { heading: string; entries: readonly Entry[] }) {
  if (entries.length === 0) return null;
  return (
    <Command.Group
      heading={heading}
      className="[&_[cmdk-group-heading]]:px-2 [&_[cmdk-group-heading]]:pt-2 [&_[cmdk-group-heading]]:pb-1 [&_[cmdk-group-heading]]:font-medium [&_[cmdk-group-heading]]:text-muted [&_[cmdk-group-heading]]:text-xs"
    >
      {entries.map((entry) => (
        <Item key={entry.value} {...entry} />
      ))}
    </Command.Group>
  );
}

function Item({ name, value, icon: Icon, picture, hint, run }: Entry) {
  return (
    <Command.Item
      value={value}
      onSelect={run}
      className="flex cursor-default items-center gap-2.5 rounded-md px-2 py-2 data-[selected=true]:bg-active"
    >
      {picture ?? (Icon && <Icon size={16} aria-hidden="true" className="shrink-0 text-muted" />)}
      <span className="min-w-0 flex-1 truncate">{name}</span>
      {hint && <span className="shrink-0 text-muted text-xs">{hint}</span>}
    </Command.Item>
  );
}
