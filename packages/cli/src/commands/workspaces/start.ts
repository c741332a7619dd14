import { command } from '../../framework/definition.ts';
import { print, printDone } from '../../framework/io.ts';
import { startExisting, usualVersion } from '../../lib/build.ts';
import { buildFlags, yesFlag } from '../../lib/flags.ts';
import { followBuild } from '../../lib/job.ts';
import { parameterFlags } from '../../lib/parameters.ts';
import { findWorkspace } from '../../lib/workspace.ts';

const flags = {
  'no-wait': { type: 'bool', description: 'Return as soon as the build is queued.' },
  ...yesFlag,
  ...buildFlags,
  ...parameterFlags,
} as const;

export default command(
  {
    args: { workspace: {} },
    flags,
    examples: [
      { does: 'Start a workspace and wait for it', run: 'coder start dev' },
      { does: 'Change a parameter', run: 'coder start dev --parameter region=eu' },
    ],
  },
  async (ctx, { args, flags: given }) => {
    const client = await ctx.client({ keepOnInterrupt: true });
    const workspace = await findWorkspace(client, args.workspace);
    const build = workspace.latest_build;
    if (workspace.dormant_at) {
      await client.call('PUT /workspaces/{workspace}/dormant', {
        params: { workspace: workspace.id },
        body: { dormant: false },
      });
    }
    const isStarting = build.transition === 'start' && ['pending', 'running'].includes(build.job.status);
    if (build.status === 'running') {
      print(ctx.io, `The workspace ${workspace.name} is already running.`);
      return;
    }
    const versionId = usualVersion(workspace);
    const started = isStarting ? build : await startExisting(client, ctx, workspace, given, { versionId, yes: true });
    if (given['no-wait']) {
      printDone(ctx, `The workspace ${workspace.name} has been queued to start.`);
      return;
    }
    await followBuild(ctx, client, started.id);
    printDone(ctx, `\nThe workspace ${workspace.name} has been started.`);
  },
);
