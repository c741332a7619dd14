import { AppError } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import { print, printDone } from '../../framework/io.ts';
import { orgFlag, yesFlag } from '../../lib/flags.ts';
import { findOrganization } from '../../lib/organization.ts';
import { confirm } from '../../lib/prompt.ts';
import { checkCanAskAll, nameOfDirectory, uploadFlags, uploadVersion } from './upload-version.ts';

const flags = {
  ...uploadFlags,
  name: { type: 'string', description: 'Name of the new version. Default: a generated name.' },
  'always-prompt': { type: 'bool', description: 'Ask for every Terraform variable, even if it has a value.' },
  activate: { type: 'bool', default: 'true', description: 'Make the new version the active version.' },
  ...yesFlag,
  ...orgFlag,
} as const;

const examples = [
  { does: 'Push the files in this directory as the template "docker"', run: 'coder templates push docker' },
  { does: 'Push another directory without questions', run: 'coder templates push docker -d ./docker --yes' },
  {
    does: 'Name the version and describe the change',
    run: 'coder templates push docker --name v2 --message "Use a newer image"',
  },
];

export default command(
  { args: { template: { optional: true } }, flags, examples },
  async (ctx, { args, flags: given }) => {
    if (given['always-prompt']) checkCanAskAll(ctx, given);
    const client = await ctx.client({ keepOnInterrupt: true });
    const organization = await findOrganization(client, given.org);
    const name = args.template ?? (given.directory === '-' ? '' : nameOfDirectory(given.directory));
    if (name === '') throw new AppError('invalid', 'Missing template name. Usage: coder templates push <template>');
    const existing = (
      await client.call('GET /organizations/{organization}/templates', { params: { organization: organization.id } })
    ).find((one) => one.name.toLowerCase() === name.toLowerCase());
    const target = given.directory === '-' ? 'the archive from stdin' : given.directory;
    await confirm(ctx, `Upload ${target} as ${existing ? 'a version of' : 'the new template'} ${name}?`, given.yes);
    const previous = existing
      ? await client.call('GET /templateversions/{templateversion}', {
          params: { templateversion: existing.active_version_id },
        })
      : undefined;
    const { owner: _owner, scope: _scope, ...tags } = previous?.job.tags ?? {};
    const version = await uploadVersion(ctx, client, {
      organization,
      flags: given,
      templateId: existing?.id,
      name: given.name,
      tags,
      askAll: given['always-prompt'],
      yes: given.yes,
    });
    if (!existing) {
      await client.call('POST /organizations/{organization}/templates', {
        params: { organization: organization.id },
        body: { name, template_version_id: version.id },
      });
      printDone(ctx, `The template ${name} has been created with version ${version.name}.`);
      print(ctx.io, `Create a workspace from it with: coder create --template ${name} <workspace>`);
      return;
    }
    if (given.activate) {
      await client.call('PATCH /templates/{template}/versions', {
        params: { template: existing.id },
        body: { id: version.id },
      });
    }
    print(
      ctx.io,
      `The template ${name} has a new version ${version.name}${given.activate ? ', which is active' : ''}.`,
    );
  },
);
