import { AppError } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { yesFlag } from '../../lib/flags.ts';
import { ask, confirm } from '../../lib/prompt.ts';

const flags = {
  roles: { type: 'string[]', description: 'Roles of the user, separated by commas. Replaces all current roles.' },
  ...yesFlag,
} as const;

export default command(
  { args: { user: { usage: 'username|user_id' } }, flags },
  async (ctx, { args, flags: given, isSet }) => {
    const client = await ctx.client();
    const user = await client.call('GET /users/{user}', { params: { user: args.user } });
    const known = (await client.call('GET /users/roles')).map(({ name }) => name);
    let roles = given.roles;
    if (!isSet('roles')) {
      const answer = await ask(ctx, {
        text: `Roles (available: ${known.join(', ')})`,
        fallback: user.roles.map(({ name }) => name).join(','),
        instead: 'set them with --roles.',
      });
      roles = answer.split(',').flatMap((text) => text.trim() || []);
    }
    const unknown = roles.filter((role) => !known.includes(role));
    if (unknown.length > 0) {
      throw new AppError('invalid', `Unknown role ${unknown.join(', ')}. Available: ${known.join(', ')}.`);
    }
    await confirm(ctx, `Set the roles of ${user.username} to ${['member', ...roles].join(', ')}?`, given.yes);
    await client.call('PUT /users/{user}/roles', { params: { user: user.id }, body: { roles } });
    print(ctx.io, `${user.username} now has the roles: ${['member', ...roles].join(', ')}.`);
  },
);
