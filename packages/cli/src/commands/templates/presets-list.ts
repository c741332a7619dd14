import type { Preset } from '@ropewalk/contract';
import { command } from '../../framework/definition.ts';
import { note } from '../../framework/io.ts';
import { orgFlag, tableFlags, templateVersionFlag } from '../../lib/flags.ts';
import { findOrganization } from '../../lib/organization.ts';
import { type Columns, printRows } from '../../lib/output.ts';
import { findTemplate, findVersion } from '../../lib/template.ts';

const columns = {
  name: (one) => one.Name,
  description: (one) => one.Description,
  parameters: (one) => one.Parameters.map(({ Name, Value }) => `${Name}=${Value}`).join(','),
  default: (one) => String(one.Default),
  'desired prebuild instances': (one) => String(one.DesiredPrebuildInstances ?? '-'),
} satisfies Columns<Preset>;

const flags = {
  ...templateVersionFlag,
  ...orgFlag,
  ...tableFlags(Object.keys(columns) as (keyof typeof columns)[]),
} as const;

export default command({ args: { template: {} }, flags }, async (ctx, { args, flags: given }) => {
  const client = await ctx.client();
  const organization = await findOrganization(client, given.org);
  const template = await findTemplate(client, organization, args.template);
  const versionId = given['template-version']
    ? (await findVersion(client, organization, template.name, given['template-version'])).id
    : template.active_version_id;
  const presets = await client.call('GET /templateversions/{templateversion}/presets', {
    params: { templateversion: versionId },
  });
  if (presets.length === 0 && given.output !== 'json') {
    note(ctx.io, `The template ${template.name} has no presets.`);
    return;
  }
  printRows(ctx, given, columns, presets, (TemplatePreset) => ({ TemplatePreset }));
});
