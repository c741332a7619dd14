import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { orgFlag } from '../../lib/flags.ts';
import { findGroup } from '../../lib/group.ts';
import { findOrganization } from '../../lib/organization.ts';

export default command(
  { args: { name: {} }, flags: orgFlag, help: 'Its members lose the permissions that the group gave them.' },
  async (ctx, { args, flags }) => {
    const client = await ctx.client();
    const organization = await findOrganization(client, flags.org);
    const group = await findGroup(client, organization, args.name);
    await client.call('DELETE /groups/{group}', { params: { group: group.id } });
    printDone(ctx, `The group ${group.name} has been deleted.`);
  },
);
