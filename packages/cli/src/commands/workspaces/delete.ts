import { command } from '../../framework/definition.ts';
import { note, printDone } from '../../framework/io.ts';
import { build } from '../../lib/build.ts';
import { buildFlags, yesFlag } from '../../lib/flags.ts';
import { confirm } from '../../lib/prompt.ts';
import { findWorkspace } from '../../lib/workspace.ts';

const flags = {
  orphan: {
    type: 'bool',
    description:
      'Delete the workspace but leave its resources as they are. Requires permission to manage the template.',
  },
  ...yesFlag,
  ...buildFlags,
} as const;

export default command(
  {
    args: { workspace: {} },
    flags,
    examples: [
      { does: 'Delete a workspace and its resources', run: 'coder delete dev' },
      { does: 'Delete it without questions', run: 'coder delete dev --yes' },
    ],
  },
  async (ctx, { args, flags: given }) => {
    const client = await ctx.client({ keepOnInterrupt: true });
    const workspace = await findWorkspace(client, args.workspace);
    if (given.orphan) note(ctx.io, 'The resources of the workspace are kept, and the server no longer tracks them.');
    await confirm(ctx, `Delete the workspace ${workspace.name}?`, given.yes);
    await build(ctx, client, workspace, 'delete', given, given.orphan ? { orphan: true } : {});
    printDone(ctx, `\nThe workspace ${workspace.name} has been deleted.`);
  },
);
