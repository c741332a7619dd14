import type { Template } from '@ropewalk/contract';
import { AppError } from '@ropewalk/kit/errors';
import { optional, optionalUuid, text, texts, tool, uuid } from '../tool.ts';

const templateId = text('The id of a template, as coder_list_templates returns it.');
const versionId = text('The id of a template version.');

const brief = (one: Template) => ({
  display_name: one.display_name,
  id: one.id,
  name: one.name,
  description: one.description,
  active_version_id: one.active_version_id,
  active_user_count: one.active_user_count,
});

export const listTemplates = tool({
  name: 'coder_list_templates',
  description: 'List the templates from which the person can create workspaces.',
  args: {},
  effect: 'read',
  run: async ({ client }) => (await client.call('GET /templates')).map(brief),
});

export const getTemplate = tool({
  name: 'coder_get_template',
  description:
    'Get a template with the parameters and presets of its active version. Call it before coder_create_workspace: the ' +
    'id of a preset is its template_version_preset_id. Without other wishes, take the preset whose default is true. ' +
    'With desired_prebuild_instances above 0, a workspace of the preset may be ready immediately.',
  args: { template_id: templateId },
  effect: 'read',
  async run({ client }, { template_id }) {
    const template = await client.call('GET /templates/{template}', {
      params: { template: uuid('template_id', template_id) },
    });
    const params = { templateversion: template.active_version_id };
    const [parameters, presets] = await Promise.all([
      client.call('GET /templateversions/{templateversion}/rich-parameters', { params }),
      client.call('GET /templateversions/{templateversion}/presets', { params }),
    ]);
    const shown = (presets ?? []).map((one) => ({
      id: one.ID,
      name: one.Name,
      description: one.Description,
      default: one.Default,
      desired_prebuild_instances: one.DesiredPrebuildInstances ?? undefined,
      parameters: one.Parameters.map(({ Name, Value }) => ({ name: Name, value: Value })),
    }));
    return { ...brief(template), parameters, ...(shown.length > 0 ? { presets: shown } : {}) };
  },
});

export const versionParameters = tool({
  name: 'coder_template_version_parameters',
  description: 'List the parameters of a template version: what a person can choose for a workspace.',
  args: { template_version_id: versionId },
  effect: 'read',
  run: ({ client }, { template_version_id }) =>
    client.call('GET /templateversions/{templateversion}/rich-parameters', {
      params: { templateversion: uuid('template_version_id', template_version_id) },
    }),
});

const MAX_FILES = 1_000;

export const uploadTarFile = tool({
  name: 'coder_upload_tar_file',
  description:
    'Upload files as one archive, and return its id in "hash", which coder_create_template_version takes as file_id. ' +
    'A template needs at least one Terraform file, such as main.tf.',
  args: { files: texts('The texts of the files, by their paths in the archive, such as {"main.tf": "…"}.') },
  effect: 'change',
  async run({ client }, { files }) {
    const { pack } = await import('tar-stream');
    const { buffer } = await import('node:stream/consumers');
    const names = Object.keys(files);
    if (names.length === 0) throw new AppError('invalid', 'files is empty. Give at least one file.');
    if (names.length > MAX_FILES) throw new AppError('invalid', `files has more than ${MAX_FILES} files.`);
    const wrong = names.find((name) => name === '' || name.startsWith('/') || name.split('/').includes('..'));
    if (wrong !== undefined)
      throw new AppError('invalid', `Invalid file name ${JSON.stringify(wrong.slice(0, 100))}: use a relative path.`);
    const archive = pack();
    for (const name of names) archive.entry({ name, mode: 0o644 }, files[name]!);
    archive.finalize();
    const bytes = await buffer(archive);
    return { hash: await client.upload(new Uint8Array(bytes), 'application/x-tar') };
  },
});

export const createTemplateVersion = tool({
  name: 'coder_create_template_version',
  description:
    'Import an archive of Terraform files as a version of a template, or, without template_id, as the version of a ' +
    'template that coder_create_template creates next. The files declare at least one coder_agent of the provider ' +
    'coder/coder, run its init_script with its token in CODER_AGENT_TOKEN where the workspace shall run, and multiply ' +
    'what exists only while a workspace runs with data.coder_workspace.me.start_count. Read ' +
    'coder_get_template_version_logs afterwards to see whether the import succeeds.',
  args: {
    file_id: text('The id of the archive, as coder_upload_tar_file returns it.'),
    template_id: optional(text('The id of the template that gets the version.')),
  },
  effect: 'change',
  async run({ client }, { file_id, template_id }) {
    const file = uuid('file_id', file_id);
    const template = optionalUuid('template_id', template_id);
    const organization = template
      ? (await client.call('GET /templates/{template}', { params: { template } })).organization_id
      : await firstOrganization(client);
    return client.call('POST /organizations/{organization}/templateversions', {
      params: { organization },
      body: {
        message: 'Created with MCP',
        storage_method: 'file',
        file_id: file,
        provisioner: 'terraform',
        ...(template ? { template_id: template } : {}),
      },
    });
  },
});

async function firstOrganization(client: Parameters<typeof listTemplates.run>[0]['client']): Promise<string> {
  const me = await client.call('GET /users/{user}', { params: { user: 'me' } });
  const [first] = me.organization_ids;
  if (first === undefined) throw new AppError('forbidden', 'You are not a member of an organization.');
  return first;
}

export const createTemplate = tool({
  name: 'coder_create_template',
  description: 'Create a template from a version that coder_create_template_version has imported.',
  args: {
    name: text('The name: lower-case letters, digits and hyphens.'),
    display_name: text('The name that people see.'),
    description: text('What the template is for.'),
    icon: optional(text('The URL of an icon, or the path of one of this server.')),
    version_id: text('The id of the version.'),
  },
  effect: 'change',
  async run({ client }, { version_id, ...fields }) {
    const id = uuid('version_id', version_id);
    const version = await client.call('GET /templateversions/{templateversion}', { params: { templateversion: id } });
    return client.call('POST /organizations/{organization}/templates', {
      params: { organization: version.organization_id },
      body: { ...fields, template_version_id: id },
    });
  },
});

export const updateActiveVersion = tool({
  name: 'coder_update_template_active_version',
  description: 'Make a version of a template the active one, which new and updated workspaces use.',
  args: { template_id: templateId, template_version_id: versionId },
  effect: 'change',
  async run({ client }, { template_id, template_version_id }) {
    await client.call('PATCH /templates/{template}/versions', {
      params: { template: uuid('template_id', template_id) },
      body: { id: uuid('template_version_id', template_version_id) },
    });
    return 'The version is active.';
  },
});

export const deleteTemplate = tool({
  name: 'coder_delete_template',
  description: 'Delete a template. It cannot be restored. Ask the person first.',
  args: { template_id: templateId },
  effect: 'destroy',
  async run({ client }, { template_id }) {
    await client.call('DELETE /templates/{template}', { params: { template: uuid('template_id', template_id) } });
    return { message: 'The template is deleted.' };
  },
});
