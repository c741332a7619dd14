import { AppError } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { yesFlag } from '../../lib/flags.ts';
import { confirm } from '../../lib/prompt.ts';
import { findWorkspace } from '../../lib/workspace.ts';

export default command(
  { args: { workspace: {}, name: { usage: 'new-name' } }, flags: yesFlag },
  async (ctx, { args, flags }) => {
    const client = await ctx.client();
    const workspace = await findWorkspace(client, args.workspace);
    if (!workspace.allow_renames) {
      throw new AppError(
        'forbidden',
        'The server does not allow renaming workspaces. Its option is --allow-workspace-renames.',
      );
    }
    const question = `Rename ${workspace.name} to ${args.name}? Templates that name resources after the workspace may recreate them, and their data is lost.`;
    await confirm(ctx, question, flags.yes);
    await client.call('PATCH /workspaces/{workspace}', {
      params: { workspace: workspace.id },
      body: { name: args.name },
    });
    printDone(ctx, `The workspace ${workspace.name} is now ${args.name}.`);
  },
);
