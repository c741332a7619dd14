import type { User } from '@ropewalk/contract';
import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { columnFlag, outputFlag } from '../../lib/flags.ts';
import { type Columns, printTable } from '../../lib/output.ts';

/** The user who is logged in, and where. */
type Row = User & { url: string };

/** The organization of a role. `*` for a role of the whole deployment. */
const placeOf = (role: User['roles'][number]): string => role.organization_id || '*';

const columns = {
  URL: (one) => one.url,
  Username: (one) => one.username,
  ID: (one) => one.id,
  Orgs: (one) => one.organization_ids.join(','),
  Roles: (one) => one.roles.map((role) => `${placeOf(role)}:${role.display_name}`).join(','),
} satisfies Columns<Row>;

const flags = {
  ...columnFlag(Object.keys(columns) as (keyof typeof columns)[], ['URL', 'Username', 'ID']),
  ...outputFlag('text', 'json', 'table'),
} as const;

export default command({ flags }, async (ctx, { flags: given }) => {
  const client = await ctx.client();
  const user: Row = { ...(await client.call('GET /users/{user}', { params: { user: 'me' } })), url: client.url };
  if (given.output === 'json') print(ctx.io, JSON.stringify([jsonOf(user)], null, 2));
  else if (given.output === 'table') printTable(ctx, given.column, columns, [user]);
  else print(ctx.io, `You are ${user.username} (${user.email}) at ${user.url}.`);
});

/** The form of upstream's command. */
function jsonOf({ url, username, id, organization_ids, roles }: Row): object {
  const byPlace = Object.groupBy(roles, placeOf);
  return {
    url,
    username,
    user_id: id,
    organization_ids,
    roles: Object.fromEntries(
      Object.entries(byPlace).map(([place, held]) => [place, held!.map((role) => role.display_name)]),
    ),
  };
}
