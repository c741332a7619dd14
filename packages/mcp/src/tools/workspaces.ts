import type { WorkspaceBuildParameter } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit/errors';
import { Type } from 'typebox';
import { isUuid, optional, optionalUuid, text, texts, tool, uuid } from '../tool.ts';
import { findByName, parseTarget } from '../workspace/find.ts';

const parametersOf = (values: Record<string, string> | undefined): WorkspaceBuildParameter[] =>
  Object.entries(values ?? {}).map(([name, value]) => ({ name, value }));

export const getWorkspace = tool({
  name: 'coder_get_workspace',
  description: 'Get a workspace with its latest build, its agents and their apps.',
  args: {
    workspace_id: text('The id of a workspace, or its name as [owner/]workspace. The default owner is the caller.'),
  },
  effect: 'read',
  run({ client }, { workspace_id }) {
    if (isUuid(workspace_id))
      return client.call('GET /workspaces/{workspace}', { params: { workspace: workspace_id } });
    return findByName(client, parseTarget(workspace_id));
  },
});

const OWNER = /^[\w.@+-]{1,100}$/;

export const listWorkspaces = tool({
  name: 'coder_list_workspaces',
  description: 'List the workspaces of one person. coder_get_workspace returns more about one of them.',
  args: { owner: optional(text('The username of the owner. Default: "me", the caller.')) },
  effect: 'read',
  async run({ client }, { owner }) {
    const name = owner || 'me';
    if (!OWNER.test(name)) throw new AppError('invalid', `Invalid owner ${JSON.stringify(name.slice(0, 100))}.`);
    const { workspaces } = await client.call('GET /workspaces', {
      query: { q: `owner:${name}`, include_resources: false },
    });
    return workspaces.map((one) => ({
      id: one.id,
      name: one.name,
      template_id: one.template_id,
      template_name: one.template_name,
      template_display_name: one.template_display_name,
      template_icon: one.template_icon,
      template_active_version_id: one.template_active_version_id,
      outdated: one.outdated,
    }));
  },
});

export const createWorkspace = tool({
  name: 'coder_create_workspace',
  description:
    'Create a workspace. Let the person confirm the template first. Afterwards, read ' +
    'coder_get_workspace_build_logs until the build has ended, before you use the workspace.',
  args: {
    user: text('The username or id of the owner. "me" is the caller.'),
    name: text('The name of the workspace: lower-case letters, digits and hyphens.'),
    rich_parameters: texts('Values of the parameters by their names. See coder_get_template. May be empty.'),
    template_id: optional(
      text('The id of the template, whose active version is used. Give this or template_version_id.'),
    ),
    template_version_id: optional(text('The id of a template version other than the active one.')),
    template_version_preset_id: optional(text('The id of a preset. Its values replace those of rich_parameters.')),
  },
  effect: 'change',
  async run({ client }, args) {
    const template = optionalUuid('template_id', args.template_id);
    const version = optionalUuid('template_version_id', args.template_version_id);
    const preset = optionalUuid('template_version_preset_id', args.template_version_preset_id);
    if ((template === undefined) === (version === undefined))
      throw new AppError('invalid', 'Give either template_id or template_version_id.');
    return client.call('POST /users/{user}/workspaces', {
      params: { user: args.user || 'me' },
      body: {
        name: args.name,
        rich_parameter_values: parametersOf(args.rich_parameters),
        ...(template ? { template_id: template } : {}),
        ...(version ? { template_version_id: version } : {}),
        ...(preset ? { template_version_preset_id: preset } : {}),
      },
    });
  },
});

export const createWorkspaceBuild = tool({
  name: 'coder_create_workspace_build',
  description:
    'Start, stop or delete a workspace. Deleting loses its data: ask the person first. Afterwards, read ' +
    'coder_get_workspace_build_logs until the build has ended.',
  args: {
    workspace_id: text('The id of the workspace.'),
    transition: Type.Enum(['start', 'stop', 'delete'], { description: 'What to do.' }),
    template_version_id: optional(text('The id of the template version. Default: the one of the latest build.')),
    template_version_preset_id: optional(
      text('For a start: the id of a preset of the template version. Its values replace those of rich_parameters.'),
    ),
    rich_parameters: optional(texts('For a start: values of parameters by their names. Others keep theirs.')),
  },
  effect: 'destroy',
  async run({ client }, { transition, rich_parameters: values, ...args }) {
    const workspace = uuid('workspace_id', args.workspace_id);
    const version = optionalUuid('template_version_id', args.template_version_id);
    const preset = optionalUuid('template_version_preset_id', args.template_version_preset_id);
    const parameters = parametersOf(values);
    if (transition !== 'start' && (preset !== undefined || parameters.length > 0))
      throw new AppError('invalid', 'Only a start takes template_version_preset_id and rich_parameters.');
    return client.call('POST /workspaces/{workspace}/builds', {
      params: { workspace },
      body: {
        transition: transition as 'start' | 'stop' | 'delete',
        ...(parameters.length > 0 ? { rich_parameter_values: parameters } : {}),
        ...(version ? { template_version_id: version } : {}),
        ...(preset ? { template_version_preset_id: preset } : {}),
      },
    });
  },
});

export const getAuthenticatedUser = tool({
  name: 'coder_get_authenticated_user',
  description: 'Get the account with whose rights these tools run.',
  args: {},
  effect: 'read',
  run: ({ client }) => client.call('GET /users/{user}', { params: { user: 'me' } }),
});
