import { AppError } from '@ropewalk/kit/errors';
import { Type } from 'typebox';
import { tool } from '../tool.ts';
import { findAgent } from '../workspace/find.ts';
import { workspaceArgument } from '../workspace/session.ts';

export const listApps = tool({
  name: 'coder_workspace_list_apps',
  description: 'List the apps of a workspace agent with their URLs.',
  args: { workspace: workspaceArgument },
  effect: 'read',
  async run({ client }, { workspace }) {
    const { agent } = await findAgent(client, workspace);
    return { apps: agent.apps.map((app) => ({ name: app.display_name || app.slug, url: app.url ?? '' })) };
  },
});

export const portForward = tool({
  name: 'coder_workspace_port_forward',
  description: 'Get the URL at which a browser reaches a port of a workspace. Only people with access can open it.',
  args: { workspace: workspaceArgument, port: Type.Integer({ minimum: 1, maximum: 65_535, description: 'The port.' }) },
  effect: 'read',
  async run({ client }, args) {
    const { workspace, agent } = await findAgent(client, args.workspace);
    const { host } = await client.call('GET /applications/host');
    if (!host) throw new AppError('unsupported', 'This server forwards no ports: it needs --wildcard-access-url.');
    const name = `${args.port}--${agent.name}--${workspace.name}--${workspace.owner_name}`;
    return { url: `${new URL(client.url).protocol}//${host.replace('*', name)}` };
  },
});
