import { command } from '../../framework/definition.ts';
import { print, printDone } from '../../framework/io.ts';
import { restart, startExisting } from '../../lib/build.ts';
import { buildFlags } from '../../lib/flags.ts';
import { followBuild } from '../../lib/job.ts';
import { parameterFlags } from '../../lib/parameters.ts';
import { findWorkspace } from '../../lib/workspace.ts';

const flags = { ...buildFlags, ...parameterFlags } as const;

export default command(
  {
    args: { workspace: {} },
    flags,
    examples: [
      { does: 'Update a workspace to the active template version', run: 'coder update dev' },
      { does: 'Change the value of a parameter, too', run: 'coder update dev --parameter region=eu' },
    ],
  },
  async (ctx, { args, flags: given, isSet }) => {
    const client = await ctx.client({ keepOnInterrupt: true });
    const workspace = await findWorkspace(client, args.workspace);
    const asksForValues =
      given['always-prompt'] ||
      given['prompt-ephemeral-parameters'] ||
      (['parameter', 'rich-parameter-file', 'ephemeral-parameter', 'build-option'] as const).some((one) => isSet(one));
    if (!workspace.outdated && !asksForValues) {
      print(ctx.io, `The workspace ${workspace.name} is up to date.`);
      return;
    }
    const options = { versionId: workspace.template_active_version_id, yes: false };
    // a stopped workspace can also change what cannot change in place
    if (workspace.latest_build.status === 'running') await restart(ctx, client, workspace, given, options);
    else {
      const started = await startExisting(client, ctx, workspace, given, options);
      await followBuild(ctx, client, started.id);
    }
    printDone(ctx, `\nThe workspace ${workspace.name} has been updated.`);
  },
);
