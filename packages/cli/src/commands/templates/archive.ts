import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { orgFlag, yesFlag } from '../../lib/flags.ts';
import { findOrganization } from '../../lib/organization.ts';
import { confirm } from '../../lib/prompt.ts';
import { pickTemplates } from '../../lib/template.ts';

const flags = {
  all: { type: 'bool', description: 'Archive all unused versions, not only those whose import failed.' },
  ...yesFlag,
  ...orgFlag,
} as const;

export default command(
  { args: { templates: { usage: 'template-name', rest: true, optional: true } }, flags },
  async (ctx, { args, flags: given }) => {
    const client = await ctx.client();
    const organization = await findOrganization(client, given.org);
    const templates = await pickTemplates(ctx, client, organization, args.templates);
    const which = given.all ? 'all unused' : 'all failed and unused';
    await confirm(ctx, `Archive ${which} versions of ${templates.map(({ name }) => name).join(', ')}?`, given.yes);
    for (const { id, name } of templates) {
      const answer = (await client.call('POST /templates/{template}/versions/archive', {
        params: { template: id },
        body: { all: given.all },
      })) as { archived_ids?: string[] };
      printDone(ctx, `${answer.archived_ids?.length ?? 0} versions of ${name} have been archived.`);
    }
  },
);
