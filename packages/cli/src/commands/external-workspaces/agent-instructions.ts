import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { externalAgent, externalAgentsOf, instructionsText } from '../../lib/external-agent.ts';
import { outputFlag } from '../../lib/flags.ts';
import { findWorkspace, pickAgent, splitTarget } from '../../lib/workspace.ts';

const help =
  'The output contains the agent token. With it, a program can act as the agent until the next build of the workspace.';

export default command(
  {
    args: { workspace: { usage: '[user/]workspace[.agent]' } },
    flags: outputFlag('text', 'json'),
    help,
    examples: [
      { does: 'Show the command that connects a machine', run: 'coder external-workspaces agent-instructions dev' },
    ],
  },
  async (ctx, { args, flags: { output } }) => {
    const client = await ctx.client();
    const { workspace: name, agent: wanted } = splitTarget(args.workspace);
    const workspace = await findWorkspace(client, name);
    const outside = externalAgentsOf(workspace);
    const agent = wanted === '' && outside.length === 1 ? outside[0]! : pickAgent(workspace, wanted);
    const found = await externalAgent(client, workspace, agent.name);
    print(ctx.io, output === 'json' ? JSON.stringify(found, null, 2) : instructionsText(name, [found]));
  },
);
