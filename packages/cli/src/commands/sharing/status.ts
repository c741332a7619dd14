import { command } from '../../framework/definition.ts';
import { findWorkspace } from '../../lib/workspace.ts';
import { printShares, shareFlags } from './shares.ts';

export default command({ args: { workspace: {} }, flags: shareFlags }, async (ctx, { args, flags }) => {
  const client = await ctx.client();
  await printShares(ctx, client, await findWorkspace(client, args.workspace), flags);
});
