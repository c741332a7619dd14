import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { orgFlag } from '../../lib/flags.ts';
import { findOrganization } from '../../lib/organization.ts';

export default command(
  {
    args: { user: { usage: 'username|user_id' }, roles: { rest: true, optional: true } },
    flags: orgFlag,
    help: 'Replaces all roles of the member. Without roles, removes all of them.',
  },
  async (ctx, { args: { user, roles }, flags }) => {
    const client = await ctx.client();
    const organization = await findOrganization(client, flags.org);
    const member = await client.call('PUT /organizations/{organization}/members/{user}/roles', {
      params: { organization: organization.id, user },
      body: { roles },
    });
    const now = member.roles.map(({ name }) => name).join(', ') || 'only member';
    print(ctx.io, `The roles of ${user} in ${organization.name}: ${now}.`);
  },
);
