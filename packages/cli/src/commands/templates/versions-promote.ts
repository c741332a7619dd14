import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { orgFlag } from '../../lib/flags.ts';
import { findOrganization } from '../../lib/organization.ts';
import { findTemplate, findVersion } from '../../lib/template.ts';

const flags = {
  template: {
    type: 'string',
    short: 't',
    env: 'CODER_TEMPLATE_NAME',
    required: true,
    description: 'Template, by name.',
  },
  'template-version': {
    type: 'string',
    env: 'CODER_TEMPLATE_VERSION_NAME',
    required: true,
    description: 'Template version, by name.',
  },
  ...orgFlag,
} as const;

export default command({ flags }, async (ctx, { flags: given }) => {
  const client = await ctx.client();
  const organization = await findOrganization(client, given.org);
  const template = await findTemplate(client, organization, given.template);
  const version = await findVersion(client, organization, template.name, given['template-version']);
  await client.call('PATCH /templates/{template}/versions', {
    params: { template: template.id },
    body: { id: version.id },
  });
  printDone(ctx, `${version.name} is now the active version of ${template.name}.`);
});
