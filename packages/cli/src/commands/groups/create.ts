import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { orgFlag } from '../../lib/flags.ts';
import { groupFlags } from '../../lib/group.ts';
import { findOrganization } from '../../lib/organization.ts';

export default command(
  {
    args: { name: {} },
    flags: { ...groupFlags, ...orgFlag },
    examples: [
      { does: 'Create a group whose members may spend 40 a day', run: 'coder groups create devs --quota-allowance 40' },
    ],
  },
  async (ctx, { args, flags }) => {
    const client = await ctx.client();
    const organization = await findOrganization(client, flags.org);
    const group = await client.call('POST /organizations/{organization}/groups', {
      params: { organization: organization.id },
      body: {
        name: args.name,
        display_name: flags['display-name'],
        avatar_url: flags['avatar-url'],
        quota_allowance: flags['quota-allowance'] ?? 0,
      },
    });
    printDone(ctx, `The group ${group.name} has been created in ${organization.name}.`);
  },
);
