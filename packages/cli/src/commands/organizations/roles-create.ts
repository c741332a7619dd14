import { command } from '../../framework/definition.ts';
import { print, printDone } from '../../framework/io.ts';
import { orgFlag, yesFlag } from '../../lib/flags.ts';
import { findOrganization } from '../../lib/organization.ts';
import { confirm } from '../../lib/prompt.ts';
import { roleFlags, roleFromFlags } from './role.ts';

export default command(
  {
    args: { name: { usage: 'role_name' } },
    flags: { ...roleFlags, ...yesFlag, ...orgFlag },
    help: 'You can only give permissions that you have in the whole organization.',
    examples: [
      {
        does: 'Create a role that can read and stop all workspaces',
        run: 'coder org roles create janitor --permissions workspace:read,workspace:stop',
      },
      { does: 'Create a role from a file', run: 'coder organizations roles create janitor --stdin < janitor.json' },
    ],
  },
  async (ctx, { args, flags }) => {
    const client = await ctx.client();
    const organization = await findOrganization(client, flags.org);
    const body = await roleFromFlags(ctx, args.name, flags);
    if (flags['dry-run']) {
      print(ctx.io, JSON.stringify(body, null, 2));
      return;
    }
    if (!flags.stdin) await confirm(ctx, `Create the role ${args.name} in ${organization.name}?`, flags.yes);
    const role = await client.call('POST /organizations/{organization}/members/roles', {
      params: { organization: organization.id },
      body,
    });
    printDone(ctx, `The role ${role.name} has been created in ${organization.name}.`);
  },
);
