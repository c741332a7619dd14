import { command } from '../../framework/definition.ts';
import { findWorkspace } from '../../lib/workspace.ts';
import { aclOf, namingFlags, printShares } from './shares.ts';

export default command(
  {
    args: { workspace: {} },
    flags: namingFlags,
    help: 'Their open connections to the workspace end within seconds.',
    examples: [{ does: 'Take a workspace back from a colleague', run: 'coder sharing remove dev --user ann' }],
  },
  async (ctx, { args, flags: given }) => {
    const client = await ctx.client();
    const workspace = await findWorkspace(client, args.workspace);
    const body = await aclOf(client, workspace, given, true);
    await client.call('PATCH /workspaces/{workspace}/acl', { params: { workspace: workspace.id }, body });
    await printShares(ctx, client, workspace, given);
  },
);
