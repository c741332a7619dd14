import { AppError } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { orgFlag } from '../../lib/flags.ts';
import { findGroup, groupFlags, membersNamed } from '../../lib/group.ts';
import { findOrganization } from '../../lib/organization.ts';

const flags = {
  name: { type: 'string', short: 'n', description: 'New name of the group.' },
  ...groupFlags,
  'add-users': {
    type: 'string[]',
    short: 'a',
    description:
      'Users to add, by email, username or ID, separated by commas. Each must be a member of the organization.',
  },
  'rm-users': {
    type: 'string[]',
    short: 'r',
    description: 'Users to remove, by email, username or ID, separated by commas.',
  },
  ...orgFlag,
} as const;

export default command(
  {
    args: { name: {} },
    flags,
    help: 'Changes only the settings that the flags name.',
    examples: [{ does: 'Add two members and remove one', run: 'coder groups edit devs -a ann,bob@example.com -r eve' }],
  },
  async (ctx, { args, flags: given, isSet }) => {
    const client = await ctx.client();
    const changes = ['name', 'display-name', 'avatar-url', 'quota-allowance', 'add-users', 'rm-users'] as const;
    if (!changes.some(isSet)) {
      throw new AppError('invalid', `Nothing to change: use ${changes.map((name) => `--${name}`).join(', ')}.`);
    }
    const organization = await findOrganization(client, given.org);
    const group = await findGroup(client, organization, args.name);
    const [added, removed] = await membersNamed(client, organization, [given['add-users'], given['rm-users']]);
    const changed = await client.call('PATCH /groups/{group}', {
      params: { group: group.id },
      body: {
        ...(isSet('name') ? { name: given.name } : {}),
        ...(isSet('display-name') ? { display_name: given['display-name'] } : {}),
        ...(isSet('avatar-url') ? { avatar_url: given['avatar-url'] } : {}),
        ...(given['quota-allowance'] === undefined ? {} : { quota_allowance: given['quota-allowance'] }),
        add_users: added!,
        remove_users: removed!,
      },
    });
    printDone(ctx, `The group ${changed.name} has been changed.`);
  },
);
