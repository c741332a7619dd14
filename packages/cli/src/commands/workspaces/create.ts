import type { Client } from '@ropewalk/client';
import type { CreateWorkspaceRequest, Template, Workspace } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit/errors';
import type { Command, Context } from '../../framework/context.ts';
import { command } from '../../framework/definition.ts';
import { print, printDone } from '../../framework/io.ts';
import type { ArgDef, Example } from '../../framework/types.ts';
import { waitForAgent } from '../../lib/agent.ts';
import { externalAgent, externalAgentsOf, instructionsCommand, instructionsText } from '../../lib/external-agent.ts';
import { orgFlag, yesFlag } from '../../lib/flags.ts';
import { followBuild, followJob } from '../../lib/job.ts';
import { findOrganization } from '../../lib/organization.ts';
import { throughOutage } from '../../lib/outage.ts';
import { givenValues, parameterFlags, resolveParameters } from '../../lib/parameters.ts';
import { ask, choose, confirm } from '../../lib/prompt.ts';
import { resourcesText } from '../../lib/resources.ts';
import { parseAutostart } from '../../lib/schedule.ts';
import { findTemplate as templateByName, findVersion as versionByName } from '../../lib/template.ts';
import { merged, type NamedValue } from '../../lib/values.ts';
import { agentsOf, findWorkspace, splitWorkspaceName } from '../../lib/workspace.ts';
import { connectAccounts } from './external-auth.ts';
import { choosePreset } from './preset.ts';

const flags = {
  template: { type: 'string', short: 't', env: 'CODER_TEMPLATE_NAME', description: 'Template, by name.' },
  'template-version': {
    type: 'string',
    env: 'CODER_TEMPLATE_VERSION',
    description: 'Template version, by name. Default: the active version.',
  },
  preset: {
    type: 'string',
    env: 'CODER_PRESET_NAME',
    description:
      "Preset of parameter values, by name. The value none applies no preset, not even the template's default. Default: the default preset.",
  },
  'start-at': {
    type: 'string',
    env: 'CODER_WORKSPACE_START_AT',
    description: 'Schedule for automatic starts, such as "9:30AM Mon-Fri Europe/Dublin". Default: no automatic start.',
  },
  'stop-after': {
    type: 'duration',
    env: 'CODER_WORKSPACE_STOP_AFTER',
    description: 'Time after which a running workspace stops, such as 8h. Default: the setting of the template.',
  },
  'automatic-updates': {
    type: 'string',
    env: 'CODER_WORKSPACE_AUTOMATIC_UPDATES',
    default: 'never',
    values: ['always', 'never'],
    description: 'Whether the workspace updates to the active template version when it starts.',
  },
  'copy-parameters-from': {
    type: 'string',
    env: 'CODER_WORKSPACE_COPY_PARAMETERS_FROM',
    description: 'Workspace to copy parameter values from, by name.',
  },
  'no-wait': {
    type: 'bool',
    env: 'CODER_CREATE_NO_WAIT',
    description: 'Return as soon as the build is queued.',
  },
  ...yesFlag,
  ...parameterFlags,
  ...orgFlag,
} as const;

interface Kind {
  /** The workspace runs on a machine that the template does not create. */
  external: boolean;
  args: { workspace: ArgDef };
  examples: readonly Example[];
}

/** A command that creates a workspace of some kind. */
export function createCommand({ external, args: argDefs, examples }: Kind): Command {
  const template = external ? ({ ...flags.template, required: true } as const) : flags.template;
  return command(
    { args: argDefs, flags: { ...flags, template }, examples },
    async (ctx, { args, flags: given, isSet }) => {
      const client = await ctx.client({ keepOnInterrupt: true });
      const { owner, name } = splitWorkspaceName(
        args.workspace ??
          (await ask(ctx, { text: 'Workspace name', instead: 'set it with coder create <workspace>.' })),
      );
      await rejectExisting(client, owner, name);
      const source = given['copy-parameters-from']
        ? await findWorkspace(client, given['copy-parameters-from'])
        : undefined;
      const wanted = given.template || (source?.template_name ?? '');
      const template = await findTemplate(ctx, client, given.org || (source?.organization_id ?? ''), wanted);
      const versionId = await findVersion(client, template, given['template-version'], source);
      if (external) await requireExternalAgent(client, versionId);
      const copied = source
        ? await client.call('GET /workspacebuilds/{workspacebuild}/parameters', {
            params: { workspacebuild: source.latest_build.id },
          })
        : [];
      const chosen = await givenValues(given);
      const preset = await choosePreset(ctx, client, {
        versionId,
        name: given.preset,
        given: merged(
          copied.map((one) => ({ ...one, from: `${one.name}=${one.value} of --copy-parameters-from` })),
          chosen,
        ),
      });
      const resolved = await resolveParameters(ctx, client, {
        versionId,
        classic: template.use_classic_parameter_flow,
        ownerId: await ownerIdOf(client, owner),
        flags: given,
        given: chosen,
        previous: copied,
        isNew: true,
        preset,
        yes: given.yes,
      });
      const values = [...copied.filter((one) => !resolved.some(({ name }) => name === one.name)), ...resolved];
      if (owner === 'me') await connectAccounts(ctx, client, versionId);
      if (!given.yes) {
        await preview(ctx, client, { versionId, name, values });
        await confirm(ctx, 'Create the workspace?', false);
      }
      const body: CreateWorkspaceRequest = {
        name,
        template_version_id: versionId,
        automatic_updates: given['automatic-updates'] as 'always' | 'never',
        rich_parameter_values: values,
        ...(preset ? { template_version_preset_id: preset.ID } : {}),
        ...(given['start-at'] ? { autostart_schedule: parseAutostart(given['start-at'].split(' ')) } : {}),
        ...(isSet('stop-after') ? { ttl_ms: given['stop-after'] } : {}),
      };
      const workspace = await client.call('POST /users/{user}/workspaces', { params: { user: owner }, body });
      const shown = owner === 'me' ? name : `${owner}/${name}`;
      if (given['no-wait']) {
        printDone(ctx, `The workspace ${shown} has been queued. Follow its build with: coder logs ${shown} --follow`);
        if (external)
          print(ctx.io, `When it is built, show the command for its machine with: ${instructionsCommand(shown)}`);
        return;
      }
      await followBuild(ctx, client, workspace.latest_build.id);
      const read = () => client.call('GET /workspaces/{workspace}', { params: { workspace: workspace.id } });
      const built = await throughOutage(read, { signal: ctx.signal });
      printDone(ctx, `\nThe workspace ${shown} has been created.`);
      await showAgents(ctx, client, built, shown);
    },
  );
}

export default createCommand({
  external: false,
  args: { workspace: { optional: true } },
  examples: [
    { does: 'Create a workspace from the template "docker"', run: 'coder create dev --template docker' },
    {
      does: 'Set a parameter and answer no questions',
      run: 'coder create dev --template docker --parameter region=eu --yes',
    },
    { does: 'Copy the parameters of another workspace', run: 'coder create dev2 --copy-parameters-from dev' },
  ],
});

async function requireExternalAgent(client: Client, versionId: string): Promise<void> {
  const version = await client.call('GET /templateversions/{templateversion}', {
    params: { templateversion: versionId },
  });
  if (version.has_external_agent) return;
  throw new AppError(
    'invalid',
    `The template version ${JSON.stringify(version.name)} has no external agent: choose a template with a ` +
      'coder_external_agent, or create the workspace with: coder create',
  );
}

/** Shows how to reach the agents, after a wait for the only one. A person starts the external ones. */
async function showAgents(ctx: Context, client: Client, built: Workspace, shown: string): Promise<void> {
  const outside = externalAgentsOf(built);
  if (outside.length > 0) {
    const commands = await Promise.all(outside.map(({ name }) => externalAgent(client, built, name)));
    print(ctx.io, `\n${instructionsText(shown, commands)}\n`);
  }
  const [agent, ...others] = agentsOf(built);
  if (!agent) return;
  if (others.length === 0 && outside.length === 0) {
    await waitForAgent(ctx, await ctx.client(), agent.id, {
      forScripts: agent.startup_script_behavior === 'blocking',
    });
  }
  print(ctx.io, `Open a shell in it with: coder ssh ${others.length === 0 ? shown : `${shown}.${agent.name}`}`);
}

/** The owner's id. Undefined for the caller. */
async function ownerIdOf(client: Client, owner: string): Promise<string | undefined> {
  return owner === 'me' ? undefined : (await client.call('GET /users/{user}', { params: { user: owner } })).id;
}

async function rejectExisting(client: Client, user: string, name: string): Promise<void> {
  const path = `/users/${encodeURIComponent(user)}/workspace/${encodeURIComponent(name)}`;
  const { status } = await client.raw('GET', path);
  if (status === 200) throw new AppError('conflict', `A workspace named ${JSON.stringify(name)} already exists.`);
}

async function findTemplate(ctx: Context, client: Client, org: string, name: string): Promise<Template> {
  if (name !== '' && org === '') return templateAnywhere(ctx, client, name);
  const organization = await findOrganization(client, org);
  if (name !== '') return templateByName(client, organization, name);
  const params = { organization: organization.id };
  const all = await client.call('GET /organizations/{organization}/templates', { params });
  if (all.length === 0)
    throw new AppError('not_found', 'The organization has no templates. Write an example with: coder templates init');
  const options = all
    .sort((a, b) => b.active_user_count - a.active_user_count)
    .map((one) => ({
      value: one.name,
      label: one.display_name && one.display_name !== one.name ? `${one.name} (${one.display_name})` : one.name,
    }));
  const chosen = await choose(ctx, 'Template', options, 'choose one with --template.');
  return all.find((one) => one.name === chosen)!;
}

/** Finds a template by name in all organizations. */
async function templateAnywhere(ctx: Context, client: Client, name: string): Promise<Template> {
  const all = await client.call('GET /templates', { query: { q: `exact_name:${JSON.stringify(name)}` } });
  const [first, ...others] = all;
  if (!first) {
    throw new AppError(
      'not_found',
      `Template ${JSON.stringify(name)} not found, or you don't have access to it. List templates with: coder templates list`,
    );
  }
  if (others.length === 0) return first;
  const names = all.map((one) => one.organization_name);
  const instead = 'choose one with --org.';
  if (!ctx.interactive) {
    const having = `Several organizations have a template ${JSON.stringify(name)} (${names.join(', ')})`;
    throw new AppError('invalid', `${having}: ${instead}`);
  }
  const options = names.map((value) => ({ value, label: value }));
  const chosen = await choose(ctx, 'Organization', options, instead);
  return all.find((one) => one.organization_name === chosen)!;
}

async function findVersion(
  client: Client,
  template: Template,
  name: string,
  source: { latest_build: { template_version_id: string } } | undefined,
): Promise<string> {
  if (name === '') return source?.latest_build.template_version_id ?? template.active_version_id;
  return (await versionByName(client, { id: template.organization_id }, template.name, name)).id;
}

async function preview(
  ctx: Context,
  client: Client,
  input: { versionId: string; name: string; values: NamedValue[] },
): Promise<void> {
  const job = await client.call('POST /templateversions/{templateversion}/dry-run', {
    params: { templateversion: input.versionId },
    body: { workspace_name: input.name, rich_parameter_values: input.values, user_variable_values: [] },
  });
  const params = { templateversion: input.versionId, jobID: job.id };
  await followJob(ctx, client, {
    logsPath: `/templateversions/${input.versionId}/dry-run/${job.id}/logs`,
    fetch: async (one) => ({
      job: await one.call('GET /templateversions/{templateversion}/dry-run/{jobID}', { params }),
    }),
    cancel: (one) => one.call('PATCH /templateversions/{templateversion}/dry-run/{jobID}/cancel', { params }),
    quiet: true,
  });
  const resources = await client.call('GET /templateversions/{templateversion}/dry-run/{jobID}/resources', { params });
  const started = resources.filter((one) => one.workspace_transition === 'start');
  print(ctx.io, `\n${resourcesText(started, { title: 'The workspace will have:' })}`);
}
