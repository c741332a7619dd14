import { ApiError } from '@ropewalk/client';
import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { outputFlag } from '../../lib/flags.ts';
import { layOut } from '../../lib/table.ts';

const flags = outputFlag('table', 'json');

export default command(
  { args: { user: { usage: 'username|user_id|me' } }, flags },
  async (ctx, { args, flags: given }) => {
    const client = await ctx.client();
    const user = await client.call('GET /users/{user}', { params: { user: args.user } });
    // upstream's command adds the names, in the order of the ids
    const names = await Promise.all(
      user.organization_ids.map(async (organization) => {
        try {
          return (await client.call('GET /organizations/{organization}', { params: { organization } })).name;
        } catch (err) {
          // not everyone who may read a user may read all organizations of the user
          if (err instanceof ApiError && (err.status === 403 || err.status === 404)) return organization;
          throw err;
        }
      }),
    );
    if (given.output === 'json') {
      print(ctx.io, JSON.stringify({ ...user, organization_names: names }, null, 2));
      return;
    }
    const rows = [
      ['ID', user.id],
      ['Username', user.username],
      ['Full name', user.name ?? ''],
      ['Email', user.email],
      ['Status', user.status],
      ['Login type', user.login_type],
      ['Created at', user.created_at],
      ['Last seen', user.last_seen_at?.startsWith('0001-') ? 'never' : (user.last_seen_at ?? 'never')],
      ['Roles', user.roles.map((role) => role.display_name || role.name).join(', ') || 'Member'],
      ['Organizations', names.join(', ')],
    ];
    print(ctx.io, layOut(rows));
  },
);
