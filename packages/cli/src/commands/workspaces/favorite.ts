import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { findWorkspace } from '../../lib/workspace.ts';

export default command({ args: { workspace: {} } }, async (ctx, { args }) => {
  const client = await ctx.client();
  const { id, name } = await findWorkspace(client, args.workspace);
  await client.call('PUT /workspaces/{workspace}/favorite', { params: { workspace: id } });
  printDone(ctx, `The workspace ${name} is now a favorite.`);
});
