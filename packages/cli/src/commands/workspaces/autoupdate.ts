import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { yesFlag } from '../../lib/flags.ts';
import { findWorkspace } from '../../lib/workspace.ts';

export default command(
  { args: { workspace: {}, policy: { values: ['always', 'never'] } }, flags: yesFlag },
  async (ctx, { args }) => {
    const client = await ctx.client();
    const { id, name } = await findWorkspace(client, args.workspace);
    await client.call('PUT /workspaces/{workspace}/autoupdates', {
      params: { workspace: id },
      body: { automatic_updates: args.policy },
    });
    print(ctx.io, `Automatic updates of the workspace ${name}: ${args.policy}.`);
  },
);
