import type { Group } from '@ropewalk/contract';
import { apiQuery } from '../../api/query.ts';
import type { NotFound } from '../../ui/states.tsx';
import { paths } from '../../util/paths.ts';

const watches = [{ kind: 'group' }, { kind: 'organization_member' }, { kind: 'user' }] as const;

export const groupsQuery = (organization: string) =>
  apiQuery('GET /organizations/{organization}/groups', watches, { params: { organization } });

export const groupQuery = (organization: string, groupName: string) =>
  apiQuery('GET /organizations/{organization}/groups/{groupName}', watches, { params: { organization, groupName } });

export const groupNotFound = (organization: string): NotFound => ({
  title: 'Group not found',
  to: paths.groups(organization),
  all: 'All groups',
});

/** Everyone has all members of the organization: it has the organization's id. */
export const isEveryone = (group: Pick<Group, 'id' | 'organization_id'>): boolean => group.id === group.organization_id;

export const groupTitle = (group: Pick<Group, 'name' | 'display_name'>): string => group.display_name || group.name;

export const countMembers = (count: number): string => (count === 1 ? '1 member' : `${count} members`);
