import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { release } from 'node:os';
import { type Client, UnreachableError } from '@ropewalk/client';
import type { Workspace, WorkspaceAgent } from '@ropewalk/contract';
import { AppError, errorText } from '@ropewalk/kit/errors';
import { zipSync } from 'fflate';
import type { Context } from '../../framework/context.ts';
import { command } from '../../framework/definition.ts';
import { note, print } from '../../framework/io.ts';
import { yesFlag } from '../../lib/flags.ts';
import { confirm } from '../../lib/prompt.ts';
import { agentsOf, findWorkspace, pickAgent } from '../../lib/workspace.ts';

const flags = {
  ...yesFlag,
  'output-file': {
    type: 'string',
    short: 'O',
    env: 'CODER_SUPPORT_BUNDLE_OUTPUT_FILE',
    description: 'File to write. Default: coder-support-<time>.zip in the current directory.',
  },
  'url-override': {
    type: 'url',
    env: 'CODER_SUPPORT_BUNDLE_URL_OVERRIDE',
    description: 'URL of the server to collect from. Default: the one you logged in to.',
  },
} as const;

const HIDDEN = '***';

/** Environment variables may be secret: keeps only their names. */
function withoutValues(agent: WorkspaceAgent): WorkspaceAgent {
  const names = Object.keys(agent.environment_variables).map((name) => [name, HIDDEN]);
  return { ...agent, environment_variables: Object.fromEntries(names) };
}

function withoutSecrets(workspace: Workspace): Workspace {
  const resources = workspace.latest_build.resources.map((resource) => ({
    ...resource,
    metadata: (resource.metadata ?? []).map((entry) => (entry.sensitive ? { ...entry, value: HIDDEN } : entry)),
    ...(resource.agents ? { agents: resource.agents.map(withoutValues) } : {}),
  }));
  return { ...workspace, latest_build: { ...workspace.latest_build, resources } };
}

/** Collects files. A file that it cannot collect is replaced by its error. */
class Collector {
  readonly files: Record<string, string> = {};
  async add(path: string, ask: () => Promise<unknown>): Promise<void> {
    try {
      const value = await ask();
      this.files[path] = typeof value === 'string' ? value : `${JSON.stringify(value, null, 2)}\n`;
    } catch (err) {
      if (err instanceof UnreachableError) throw err;
      this.files[`${path}.error.txt`] = `${errorText(err)}\n`;
    }
  }
}

async function collect(ctx: Context, client: Client, workspaceName: string, agentName: string) {
  const into = new Collector();
  await into.add('deployment/buildinfo.json', () => client.call('GET /buildinfo'));
  await Promise.all([
    into.add('deployment/config.json', () => client.call('GET /deployment/config')),
    into.add('deployment/health.json', () => client.call('GET /debug/health', { query: {} })),
    into.add('deployment/entitlements.json', () => client.call('GET /entitlements')),
    into.add('network/connection_info.json', () => client.call('GET /workspaceagents/connection')),
    into.add('cli/environment.json', async () => ({
      platform: process.platform,
      release: release(),
      architecture: process.arch,
      node: process.version,
      // only the names
      variables: Object.keys(ctx.env).filter((name) => /^(CODER_|HTTPS?_PROXY$|NO_PROXY$|SSL_)/i.test(name)),
    })),
  ]);
  if (workspaceName === '') return into.files;
  const workspace = await findWorkspace(client, workspaceName);
  const build = { workspacebuild: workspace.latest_build.id };
  await into.add('workspace/workspace.json', async () => withoutSecrets(workspace));
  await into.add('workspace/build_logs.txt', async () => {
    const lines = await client.call('GET /workspacebuilds/{workspacebuild}/logs', { params: build, query: {} });
    return lines.map(({ created_at: at, stage, output }) => `${at} ${stage}: ${output}\n`).join('');
  });
  const agents = agentName === '' ? agentsOf(workspace) : [pickAgent(workspace, agentName)];
  for (const agent of agents) {
    const params = { workspaceagent: agent.id };
    await into.add(`agent/${agent.name}.json`, async () => withoutValues(agent));
    await into.add(`agent/${agent.name}.logs.txt`, async () => {
      const lines = await client.call('GET /workspaceagents/{workspaceagent}/logs', { params, query: {} });
      return lines.map(({ created_at: at, level, output }) => `${at} ${level}: ${output}\n`).join('');
    });
    await into.add(`agent/${agent.name}.listening_ports.json`, () =>
      client.call('GET /workspaceagents/{workspaceagent}/listening-ports', { params }),
    );
  }
  return into.files;
}

/** Collects diagnostics into one file, without tokens, parameters and values of variables. */
export default command(
  { args: { workspace: { optional: true }, agent: { optional: true } }, flags },
  async (ctx, { args, flags: given }) => {
    const logged = await ctx.client();
    const client = given['url-override'] ? await ctx.clientOf(given['url-override'], logged.token) : logged;
    const file = given['output-file'] || `coder-support-${Math.floor(Date.now() / 1_000)}.zip`;
    if (existsSync(file))
      throw new AppError('conflict', `The file ${file} already exists. Choose another one with --output-file.`);
    note(
      ctx.io,
      'The bundle contains settings and health of the server, and state and logs of the workspace.\n' +
        'Logs can contain any output of scripts. Check them before you share the bundle.',
    );
    await confirm(ctx, 'Create the bundle?', given.yes);
    const files = await collect(ctx, client, args.workspace ?? '', args.agent ?? '');
    const archive = Object.fromEntries(Object.entries(files).map(([path, content]) => [path, Buffer.from(content)]));
    await writeFile(file, zipSync(archive), { mode: 0o600, flag: 'wx' });
    print(ctx.io, file);
    return 0;
  },
);
