import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { outputFlag } from '../../lib/flags.ts';
import { layOut } from '../../lib/table.ts';

const flags = outputFlag('table', 'json');

export default command(
  { args: { user: { usage: 'username|user_id|me' } }, flags },
  async (ctx, { args, flags: given }) => {
    const user = await (await ctx.client()).call('GET /users/{user}', { params: { user: args.user } });
    if (given.output === 'json') {
      print(ctx.io, JSON.stringify(user, null, 2));
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
      ['Organizations', user.organization_ids.join(', ')],
    ];
    print(ctx.io, layOut(rows));
  },
);
