import type { FilterKey, FilterValue } from '../../../ui/filter-input.tsx';

/** The search of the page without a filter in its address. */
export const DEFAULT_FILTER = 'owner:me';

export const SAVED_FILTERS: readonly { name: string; filter: string }[] = [
  { name: 'My workspaces', filter: 'owner:me' },
  { name: 'Shared with me', filter: 'shared_with_user:me' },
  { name: 'All workspaces', filter: '' },
  { name: 'Favorites', filter: 'favorite:true' },
  { name: 'Running', filter: 'status:running' },
  { name: 'Failed', filter: 'status:failed' },
  { name: 'Outdated', filter: 'outdated:true' },
  { name: 'Unhealthy', filter: 'status:unhealthy' },
  { name: 'Dormant', filter: 'dormant:true' },
];

const STATUSES = [
  'running',
  'unhealthy',
  'stopped',
  'failed',
  'pending',
  'starting',
  'stopping',
  'canceling',
  'canceled',
  'deleting',
];

/** The keys with a menu, and the names of the menus. */
export const FILTER_MENUS = [
  ['status', 'Status'],
  ['template', 'Template'],
  ['owner', 'Owner'],
  ['organization', 'Organization'],
] as const;

const BOOLS: FilterValue[] = [{ value: 'true' }, { value: 'false' }];
const bool = (key: string, help: string): FilterKey => ({ key, help, values: () => BOOLS });

/** The keys that the API's search understands, with their values. */
export function filterKeys(sources: {
  /** Undefined for a person who may not read users. */
  users: ((typed: string) => Promise<readonly FilterValue[]>) | undefined;
  templates: () => Promise<readonly FilterValue[]>;
  organizations: () => Promise<readonly FilterValue[]>;
}): FilterKey[] {
  const { users, templates, organizations } = sources;
  return [
    {
      key: 'owner',
      help: 'whose workspaces',
      ...(users ? { find: 'Find an owner' } : {}),
      values: async (typed) => [
        ...('me'.startsWith(typed) ? [{ value: 'me', help: 'your own' }] : []),
        ...((await users?.(typed)) ?? []),
      ],
    },
    { key: 'status', help: 'what they do now', values: () => STATUSES.map((value) => ({ value })) },
    { key: 'template', help: 'made from a template', values: templates },
    { key: 'name', help: 'a part of the name', values: () => [] },
    { key: 'organization', help: 'in an organization', values: organizations },
    bool('outdated', 'whether the template has a newer version'),
    bool('favorite', 'your favorites'),
    bool('healthy', 'whether all agents are connected'),
    bool('dormant', 'not used for a long time'),
    {
      key: 'has-agent',
      help: 'the state of an agent',
      values: () => ['connected', 'connecting', 'disconnected', 'timeout'].map((value) => ({ value })),
    },
    bool('shared', 'shared with other people'),
    {
      key: 'shared_with_user',
      help: 'shared with a person',
      values: async (typed) => [
        ...('me'.startsWith(typed) ? [{ value: 'me', help: 'you' }] : []),
        ...((await users?.(typed)) ?? []),
      ],
    },
    { key: 'shared_with_group', help: 'shared with a group', values: () => [] },
    { key: 'param', help: 'a parameter, as name=value', values: () => [] },
    {
      key: 'last_used_before',
      help: 'a date',
      values: () => [7, 30, 90].map((days) => ({ value: daysAgo(days), help: `${days} days ago` })),
    },
    {
      key: 'last_used_after',
      help: 'a date',
      values: () => [1, 7, 30].map((days) => ({ value: daysAgo(days), help: `${days} days ago` })),
    },
    bool('deleted', 'deleted workspaces'),
  ];
}

const daysAgo = (days: number): string => new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);
