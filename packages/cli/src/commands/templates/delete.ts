import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { orgFlag, yesFlag } from '../../lib/flags.ts';
import { findOrganization } from '../../lib/organization.ts';
import { confirm } from '../../lib/prompt.ts';
import { pickTemplates } from '../../lib/template.ts';

export default command(
  { args: { templates: { usage: 'name', rest: true, optional: true } }, flags: { ...yesFlag, ...orgFlag } },
  async (ctx, { args, flags }) => {
    const client = await ctx.client();
    const organization = await findOrganization(client, flags.org);
    const templates = await pickTemplates(ctx, client, organization, args.templates);
    await confirm(ctx, `Delete ${templates.map(({ name }) => name).join(', ')}?`, flags.yes);
    for (const { id, name } of templates) {
      await client.call('DELETE /templates/{template}', { params: { template: id } });
      printDone(ctx, `The template ${name} has been deleted.`);
    }
  },
);
