import type { Client } from '@ropewalk/client';
import type { Group, Organization } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit/errors';
import { orNotFound } from './not-found.ts';

/** The flags of a group's name, picture and allowance. */
export const groupFlags = {
  'display-name': {
    type: 'string',
    env: 'CODER_DISPLAY_NAME',
    description: 'Name to display instead of the name.',
  },
  'avatar-url': {
    type: 'string',
    short: 'u',
    env: 'CODER_AVATAR_URL',
    description: 'URL of the picture of the group.',
  },
  'quota-allowance': {
    type: 'int',
    description: 'Amount that each member may spend on workspaces per day, in the unit of the costs in templates.',
  },
} as const;

export async function findGroup(client: Client, organization: Organization, name: string): Promise<Group> {
  return orNotFound(
    client.call('GET /organizations/{organization}/groups/{groupName}', {
      params: { organization: organization.id, groupName: name },
    }),
    `Group ${JSON.stringify(name)} not found in ${organization.name}, or you don't have access to it.`,
  );
}

/** The ids of the members of an organization with these emails, usernames or ids, for each list. */
export async function membersNamed(
  client: Client,
  organization: Organization,
  lists: readonly string[][],
): Promise<string[][]> {
  if (lists.every((list) => list.length === 0)) return lists.map(() => []);
  const members = await client.call('GET /organizations/{organization}/members', {
    params: { organization: organization.id },
  });
  return lists.map((list) =>
    list.map((text) => {
      const wanted = text.toLowerCase();
      const found = members.find(({ user_id, username, email }) =>
        [user_id, username, email].some((each) => each !== '' && each.toLowerCase() === wanted),
      );
      if (found) return found.user_id;
      throw new AppError('not_found', `${JSON.stringify(text)} is not a member of ${organization.name}.`);
    }),
  );
}
