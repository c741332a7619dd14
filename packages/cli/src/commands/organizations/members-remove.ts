import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { orgFlag } from '../../lib/flags.ts';
import { findOrganization } from '../../lib/organization.ts';

export default command(
  { args: { user: { usage: 'username|user_id' } }, flags: orgFlag },
  async (ctx, { args, flags }) => {
    const client = await ctx.client();
    const organization = await findOrganization(client, flags.org);
    await client.call('DELETE /organizations/{organization}/members/{user}', {
      params: { organization: organization.id, user: args.user },
    });
    printDone(ctx, `${args.user} is no longer a member of ${organization.name}.`);
  },
);
