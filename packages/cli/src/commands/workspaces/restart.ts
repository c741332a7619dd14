import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { restart, usualVersion } from '../../lib/build.ts';
import { buildFlags, yesFlag } from '../../lib/flags.ts';
import { parameterFlags } from '../../lib/parameters.ts';
import { confirm } from '../../lib/prompt.ts';
import { findWorkspace } from '../../lib/workspace.ts';

const flags = { ...yesFlag, ...buildFlags, ...parameterFlags } as const;

export default command({ args: { workspace: {} }, flags }, async (ctx, { args, flags: given }) => {
  const client = await ctx.client({ keepOnInterrupt: true });
  const workspace = await findWorkspace(client, args.workspace);
  await confirm(ctx, `Restart the workspace ${workspace.name}?`, given.yes);
  await restart(ctx, client, workspace, given, { versionId: usualVersion(workspace), yes: true });
  printDone(ctx, `\nThe workspace ${workspace.name} has been restarted.`);
});
