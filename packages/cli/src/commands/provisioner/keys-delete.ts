import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { orgFlag, yesFlag } from '../../lib/flags.ts';
import { findOrganization } from '../../lib/organization.ts';
import { confirm } from '../../lib/prompt.ts';

export default command({ args: { name: {} }, flags: { ...yesFlag, ...orgFlag } }, async (ctx, { args, flags }) => {
  const client = await ctx.client();
  const organization = await findOrganization(client, flags.org);
  const name = args.name;
  await confirm(ctx, `Delete the provisioner key ${name}? Daemons that use it can take no more jobs.`, flags.yes);
  await client.call('DELETE /organizations/{organization}/provisionerkeys/{provisionerkey}', {
    params: { organization: organization.id, provisionerkey: name },
  });
  print(ctx.io, `Successfully deleted provisioner key ${name}!`);
});
