import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { release } from 'node:os';
import { type Client, UnreachableError } from '@ropewalk/client';
import type { Template, Workspace, WorkspaceAgent } from '@ropewalk/contract';
import { AppError, errorText } from '@ropewalk/kit/errors';
import { zipSync } from 'fflate';
import type { Context } from '../../framework/context.ts';
import { command } from '../../framework/definition.ts';
import { note, print } from '../../framework/io.ts';
import { yesFlag } from '../../lib/flags.ts';
import { searchWorkspaces } from '../../lib/pages.ts';
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
  'workspaces-total-cap': {
    type: 'int',
    env: 'CODER_SUPPORT_BUNDLE_WORKSPACES_TOTAL_CAP',
    default: '10',
    description: 'Maximum number of workspaces that the bundle lists, without secrets. 0: all that you may see.',
  },
  template: {
    type: 'string',
    env: 'CODER_SUPPORT_BUNDLE_TEMPLATE',
    description:
      'Template to include with the files of its active version, as name or organization/name. Its files can contain secrets.',
  },
  'workspace-file': {
    type: 'string[]',
    env: 'CODER_SUPPORT_BUNDLE_WORKSPACE_FILE',
    description:
      'File in the workspace to include: an absolute path or one with ~/. Can contain * and variables of the ' +
      'workspace. May be repeated.',
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
  readonly files: Record<string, Uint8Array> = {};
  async add(path: string, ask: () => Promise<unknown>): Promise<void> {
    try {
      const value = await ask();
      if (value instanceof Uint8Array) this.files[path] = value;
      else this.files[path] = Buffer.from(typeof value === 'string' ? value : `${JSON.stringify(value, null, 2)}\n`);
    } catch (err) {
      if (err instanceof UnreachableError) throw err;
      this.files[`${path}.error.txt`] = Buffer.from(`${errorText(err)}\n`);
    }
  }
}

interface Wanted {
  workspace: string;
  agent: string;
  template: string;
  /** Patterns of files in the workspace. */
  files: readonly string[];
  /** Undefined: no limit. */
  maxWorkspaces: number | undefined;
}

async function collect(ctx: Context, client: Client, wanted: Wanted): Promise<Record<string, Uint8Array>> {
  const into = new Collector();
  await into.add('deployment/buildinfo.json', () => client.call('GET /buildinfo'));
  await Promise.all([
    into.add('deployment/config.json', () => client.call('GET /deployment/config')),
    into.add('deployment/health.json', () => client.call('GET /debug/health', { query: {} })),
    into.add('deployment/entitlements.json', () => client.call('GET /entitlements')),
    into.add('deployment/workspaces.json', () => listWorkspaces(client, wanted.maxWorkspaces)),
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
  if (wanted.template !== '') await addTemplate(into, client, wanted.template);
  if (wanted.workspace !== '') await addWorkspace(ctx, into, client, wanted);
  return into.files;
}

async function listWorkspaces(client: Client, max: number | undefined): Promise<Workspace[]> {
  const found =
    max === undefined
      ? await searchWorkspaces(client, '')
      : (await client.call('GET /workspaces', { query: { q: '', limit: max, offset: 0 } })).workspaces;
  return found.map(withoutSecrets);
}

/** The template `name`, or `organization/name`. @throws AppError `not_found`, `invalid` if several organizations have one */
async function templateOf(client: Client, text: string): Promise<Template> {
  const slash = text.indexOf('/');
  const [organization, name] = slash < 0 ? ['', text] : [text.slice(0, slash), text.slice(slash + 1)];
  const all = await client.call('GET /templates', { query: { q: '' } });
  const found = all.filter(
    (one) => one.name === name && (organization === '' || one.organization_name === organization),
  );
  if (found.length === 1) return found[0]!;
  if (found.length === 0) throw new AppError('not_found', `Template ${JSON.stringify(text)} not found.`);
  const places = found.map((one) => `${one.organization_name}/${name}`).join(', ');
  throw new AppError('invalid', `Several organizations have a template ${JSON.stringify(name)}. Use one of ${places}.`);
}

async function addTemplate(into: Collector, client: Client, name: string): Promise<void> {
  const template = await templateOf(client, name);
  const folder = `templates/${template.name}`;
  await into.add(`${folder}/template.json`, async () => template);
  const params = { templateversion: template.active_version_id };
  const version = await client.call('GET /templateversions/{templateversion}', { params });
  await into.add(`${folder}/template_version.json`, async () => version);
  await into.add(`${folder}/template_file.zip`, () => client.bytes(`/files/${version.job.file_id}?format=zip`));
}

async function addWorkspace(ctx: Context, into: Collector, client: Client, wanted: Wanted): Promise<void> {
  const workspace = await findWorkspace(client, wanted.workspace);
  const build = { workspacebuild: workspace.latest_build.id };
  await into.add('workspace/workspace.json', async () => withoutSecrets(workspace));
  await into.add('workspace/build_logs.txt', async () => {
    const lines = await client.call('GET /workspacebuilds/{workspacebuild}/logs', { params: build, query: {} });
    return lines.map(({ created_at: at, stage, output }) => `${at} ${stage}: ${output}\n`).join('');
  });
  const agents = wanted.agent === '' ? agentsOf(workspace) : [pickAgent(workspace, wanted.agent)];
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
    if (wanted.files.length > 0) await addFiles(ctx, into, client, agent, wanted.files);
  }
}

async function addFiles(
  ctx: Context,
  into: Collector,
  client: Client,
  agent: WorkspaceAgent,
  patterns: readonly string[],
): Promise<void> {
  const folder = `agent/${agent.name}.workspace_files`;
  await into.add(`${folder}/manifest.json`, async () => {
    const { workspaceFiles } = await import('./workspace-files.ts');
    const found = await workspaceFiles(ctx, client, agent.id, patterns);
    for (const { path, content } of found) into.files[`${folder}/files${path}`] = content;
    return {
      patterns,
      files: found.map(({ path, content, truncated }) => ({ path, size: content.length, truncated })),
    };
  });
}

/** Collects diagnostics into one file, without tokens, parameters and values of variables. */
export default command(
  { args: { workspace: { optional: true }, agent: { optional: true } }, flags },
  async (ctx, { args, flags: given }) => {
    const logged = await ctx.client();
    const client = given['url-override'] ? await ctx.clientOf(given['url-override'], logged.token) : logged;
    const patterns = given['workspace-file'];
    if (patterns.length > 0) {
      if (!args.workspace) throw new AppError('invalid', '--workspace-file requires a workspace.');
      (await import('./workspace-files.ts')).checkPatterns(patterns);
    }
    const file = given['output-file'] || `coder-support-${Math.floor(Date.now() / 1_000)}.zip`;
    if (existsSync(file))
      throw new AppError('conflict', `The file ${file} already exists. Choose another one with --output-file.`);
    note(
      ctx.io,
      'The bundle contains settings and health of the server, and state and logs of the workspace.\n' +
        'Logs can contain any output of scripts. Check them before you share the bundle.' +
        (patterns.length > 0 ? `\nIt also contains these files of the workspace: ${patterns.join(', ')}` : '') +
        (given.template === '' ? '' : `\nIt also contains the files of the template ${given.template}.`),
    );
    await confirm(ctx, 'Create the bundle?', given.yes);
    const most = given['workspaces-total-cap'] ?? 0;
    const files = await collect(ctx, client, {
      workspace: args.workspace ?? '',
      agent: args.agent ?? '',
      template: given.template,
      files: patterns,
      maxWorkspaces: most > 0 ? most : undefined,
    });
    await writeFile(file, zipSync(files), { mode: 0o600, flag: 'wx' });
    print(ctx.io, file);
    return 0;
  },
);
