import type { Client } from '@ropewalk/client';
import type { Region, Workspace, WorkspaceAgent, WorkspaceApp } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit/errors';
import type { Context } from '../../framework/context.ts';
import { command } from '../../framework/definition.ts';
import { note, print, warn } from '../../framework/io.ts';
import { runningWorkspace } from '../../lib/running.ts';
import { agentsOf, pickAgent, splitTarget } from '../../lib/workspace.ts';
import { mayOpen, openAddress } from './browser.ts';

const flags = {
  region: {
    type: 'string',
    env: 'CODER_OPEN_APP_REGION',
    default: 'primary',
    description: 'Region of the app proxy, by name.',
  },
} as const;

/** The placeholder for a session token in the link of an external app. */
const TOKEN_PLACE = '$SESSION_TOKEN';

/** The address of an app: below a region, in the web terminal, or external. */
function appAddress(region: Region, workspace: Workspace, agent: WorkspaceAgent, app: WorkspaceApp): string {
  if (app.external) return app.url ?? '';
  const base = region.path_app_url.replace(/\/+$/, '');
  const place = `/@${workspace.owner_name}/${workspace.name}.${agent.name}`;
  if (app.command) return `${base}${place}/terminal?app=${encodeURIComponent(app.slug)}`;
  if (app.subdomain && app.subdomain_name && region.wildcard_hostname) {
    const { protocol, port } = new URL(region.path_app_url);
    const host = region.wildcard_hostname.replace('*', app.subdomain_name);
    return `${protocol}//${host}${port && !/:\d+$/.test(host) ? `:${port}` : ''}/`;
  }
  return `${base}${place}/apps/${encodeURIComponent(app.slug)}/`;
}

/**
 * Opens an address, with a session token if the template asks for one and the server allows it. Never prints the token.
 */
async function openOrPrint(
  ctx: Context,
  client: Client,
  address: string,
  { agent, app }: { agent: WorkspaceAgent; app: WorkspaceApp },
): Promise<void> {
  const asks = app.external && address.includes(TOKEN_PLACE) && mayOpen(ctx);
  const params = { workspaceagent: agent.id };
  const full = asks
    ? (await client.call('POST /workspaceagents/{workspaceagent}/app-link', { params, body: { slug: app.slug } })).url
    : address;
  if (!(await openAddress(ctx, full))) print(ctx.io, address);
}

/** Opens an app of a workspace in the browser, or prints its address. Without a slug, lists the apps. */
export default command(
  { args: { workspace: {}, app: { usage: 'app slug', optional: true } }, flags },
  async (ctx, { args, flags: given }) => {
    const client = await ctx.client();
    const target = splitTarget(args.workspace);
    const workspace = await runningWorkspace(ctx, client, target.workspace, { autostart: true });
    const slug = args.app;
    const agents = target.agent === '' ? agentsOf(workspace) : [pickAgent(workspace, target.agent)];
    const apps = agents.flatMap((agent) => agent.apps.map((app) => ({ agent, app })));
    const names = apps.map(({ app }) => app.slug).join(', ');
    if (slug === undefined) {
      note(ctx.io, names === '' ? `${workspace.name} has no apps.` : `Apps of ${workspace.name}: ${names}.`);
      return 0;
    }
    const found = apps.find(({ app }) => app.slug === slug);
    if (!found) {
      throw new AppError(
        'not_found',
        `App ${JSON.stringify(slug)} not found in ${workspace.name}. ${names ? `It has: ${names}` : 'It has no apps'}.`,
      );
    }
    const { regions } = await client.call('GET /regions');
    const region = regions.find(({ name }) => name === given.region);
    if (!region) {
      const names = regions.map(({ name }) => name).join(', ');
      throw new AppError('not_found', `Unknown region ${JSON.stringify(given.region)}. Available: ${names}.`);
    }
    const address = appAddress(region, workspace, found.agent, found.app);
    if (address === '') throw new AppError('not_found', `The app ${slug} has no address.`);
    const { app } = found;
    if (app.health === 'unhealthy') warn(ctx, `the app ${slug} does not answer its health check.`);
    await openOrPrint(ctx, client, address, found);
    return 0;
  },
);
