import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { build } from '../../lib/build.ts';
import { buildFlags, yesFlag } from '../../lib/flags.ts';
import { confirm } from '../../lib/prompt.ts';
import { findWorkspace } from '../../lib/workspace.ts';

export default command(
  {
    args: { workspace: {} },
    flags: { ...yesFlag, ...buildFlags },
    examples: [
      { does: 'Stop a workspace', run: 'coder stop dev' },
      { does: 'Stop it without questions', run: 'coder stop dev --yes' },
    ],
  },
  async (ctx, { args, flags }) => {
    const client = await ctx.client({ keepOnInterrupt: true });
    const workspace = await findWorkspace(client, args.workspace);
    await confirm(ctx, `Stop the workspace ${workspace.name}?`, flags.yes);
    await build(ctx, client, workspace, 'stop', flags);
    printDone(ctx, `\nThe workspace ${workspace.name} has been stopped.`);
  },
);
