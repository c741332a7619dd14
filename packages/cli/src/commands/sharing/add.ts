import { command } from '../../framework/definition.ts';
import { findWorkspace } from '../../lib/workspace.ts';
import { aclOf, namingFlags, printShares } from './shares.ts';

export default command(
  {
    args: { workspace: {} },
    flags: namingFlags,
    help: 'The role "use", the default, lets people connect to the workspace, and start and stop it. "admin" also lets them change it and share it. Anyone who can connect can read all that the workspace contains.',
    examples: [
      {
        does: 'Share a workspace with a colleague and a group',
        run: 'coder sharing add dev --user ann:admin --group team',
      },
    ],
  },
  async (ctx, { args, flags: given }) => {
    const client = await ctx.client();
    const workspace = await findWorkspace(client, args.workspace);
    const body = await aclOf(client, workspace, given);
    await client.call('PATCH /workspaces/{workspace}/acl', { params: { workspace: workspace.id }, body });
    await printShares(ctx, client, workspace, given);
  },
);
