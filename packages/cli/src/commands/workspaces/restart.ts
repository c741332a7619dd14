import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { build, startExisting } from '../../lib/build.ts';
import { buildFlags, yesFlag } from '../../lib/flags.ts';
import { followBuild } from '../../lib/job.ts';
import { buildParameterFlags } from '../../lib/parameters.ts';
import { confirm } from '../../lib/prompt.ts';
import { findWorkspace } from '../../lib/workspace.ts';

const flags = { ...yesFlag, ...buildFlags, ...buildParameterFlags } as const;

export default command({ args: { workspace: {} }, flags }, async (ctx, { args, flags: given }) => {
  const client = await ctx.client({ keepOnInterrupt: true });
  const workspace = await findWorkspace(client, args.workspace);
  await confirm(ctx, `Restart the workspace ${workspace.name}?`, given.yes);
  if (workspace.latest_build.status !== 'stopped') await build(ctx, client, workspace, 'stop', given);
  const versionId = workspace.template_require_active_version
    ? workspace.template_active_version_id
    : workspace.latest_build.template_version_id;
  const started = await startExisting(client, ctx, workspace, given, { versionId, yes: true });
  await followBuild(ctx, client, started.id);
  printDone(ctx, `\nThe workspace ${workspace.name} has been restarted.`);
});
