import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { ago } from '../../lib/format.ts';
import { inFlightText } from '../../lib/job.ts';
import { noteOthers } from '../../lib/other-versions.ts';
import { layoutOf } from '../../lib/output.ts';
import { resourcesText } from '../../lib/resources.ts';
import { agentsOf, findWorkspace } from '../../lib/workspace.ts';
import { agentDetails } from './agent-details.ts';

export default command(
  {
    args: { workspace: {} },
    examples: [
      { does: 'Show a workspace', run: 'coder show dev' },
      { does: 'Find out why its agent is not healthy', run: 'coder show dev --details' },
    ],
    flags: {
      details: {
        type: 'bool',
        description: 'Also show hidden resources and apps, metadata, and why an agent is not healthy.',
      },
    },
  },
  async (ctx, { args, flags }) => {
    const client = await ctx.client();
    const workspace = await findWorkspace(client, args.workspace);
    const { latest_build: build } = workspace;
    const name = `${workspace.owner_name}/${workspace.name}`;
    const outdated = workspace.outdated ? ', outdated' : '';
    print(ctx.io, `${name}: ${build.status}, ${build.transition} #${build.build_number} ${ago(build.created_at)}`);
    print(ctx.io, `Template ${workspace.template_name}, version ${build.template_version_name}${outdated}\n`);
    const { error, status, in_flight: inFlight = [] } = build.job;
    if (error) print(ctx.io, `The last build failed: ${error}${inFlightText(build.job)}\n`);
    else if (inFlight.length > 0) {
      const tense = status === 'running' || status === 'canceling' ? 'are being created' : 'were being created';
      print(ctx.io, `Resources that ${tense}: ${inFlight.join(', ')}.\n`);
    }
    if (build.warning) print(ctx.io, `Warning: ${build.warning}\n`);
    const me = await client.call('GET /users/{user}', { params: { user: 'me' } });
    const reachable = workspace.owner_id === me.id ? workspace.name : name;
    const { details } = flags;
    const below = new Map(
      await Promise.all(
        agentsOf(workspace).map(async (agent) => [agent.id, await agentDetails(client, agent, details)] as const),
      ),
    );
    print(
      ctx.io,
      resourcesText(build.resources, {
        title: 'Resources',
        workspace: reachable,
        details,
        below,
        layout: layoutOf(ctx),
      }),
    );
    const { version } = await client.call('GET /buildinfo');
    noteOthers(ctx.io, version, agentsOf(workspace), (names) => `agent ${names}. Restart the workspace to update it.`);
  },
);
