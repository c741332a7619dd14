import { AppError } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { orgFlag, yesFlag } from '../../lib/flags.ts';
import { findOrganization } from '../../lib/organization.ts';
import { confirm } from '../../lib/prompt.ts';
import { deprecated } from '../../lib/template.ts';
import { templateFlags } from './flags.ts';
import { nameOfDirectory, uploadFlags, uploadVersion } from './upload-version.ts';

const flags = {
  ...uploadFlags,
  ...templateFlags,
  'default-ttl': { ...templateFlags['default-ttl'], default: '24h' },
  ...yesFlag,
  ...orgFlag,
} as const;

export default command(
  {
    args: { template: { usage: 'name', optional: true } },
    flags,
    help: 'Deprecated. Use `coder templates push`, which creates and updates templates.',
  },
  async (ctx, { args, flags: given }) => {
    deprecated(ctx, '`coder templates create`', '`coder templates push`');
    const client = await ctx.client({ keepOnInterrupt: true });
    const organization = await findOrganization(client, given.org);
    const name = args.template ?? nameOfDirectory(given.directory);
    const params = { organization: organization.id };
    const all = await client.call('GET /organizations/{organization}/templates', { params });
    if (all.some((one) => one.name.toLowerCase() === name.toLowerCase())) {
      throw new AppError('conflict', `A template named ${JSON.stringify(name)} already exists.`);
    }
    await confirm(ctx, `Create the template ${name} from ${given.directory}?`, given.yes);
    const version = await uploadVersion(ctx, client, { organization, flags: given });
    await client.call('POST /organizations/{organization}/templates', {
      params,
      body: {
        name,
        template_version_id: version.id,
        default_ttl_ms: given['default-ttl'],
        failure_ttl_ms: given['failure-ttl'],
        dormant_ttl_ms: given['dormancy-threshold'],
        delete_ttl_ms: given['dormancy-auto-deletion'],
        disable_everyone_group_access: given.private,
        require_active_version: given['require-active-version'],
      },
    });
    printDone(ctx, `The template ${name} has been created with version ${version.name}.`);
  },
);
