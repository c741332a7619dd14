import { AppError } from '@platform/kit/errors';
import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { yesFlag } from '../../lib/flags.ts';
import { findOrganization, orgFlag } from '../../lib/organization.ts';
import { confirm } from '../../lib/prompt.ts';
import { findVersion } from '../../lib/template.ts';

const flags = { ...yesFlag, ...orgFlag } as const;

export default command(
  { args: '<template-name> [template-version-names...]', flags },
  async (ctx, { args: [template, ...names], flags: given }) => {
    if (names.length === 0) throw new AppError('invalid', 'Name the versions.');
    const client = await ctx.client();
    const organization = await findOrganization(client, given.org);
    const versions = await Promise.all(names.map((name) => findVersion(client, organization, template!, name)));
    await confirm(ctx, `Archive ${names.join(', ')} of ${template!}?`, given.yes);
    for (const { id, name } of versions) {
      await client.call('POST /templateversions/{templateversion}/archive', { params: { templateversion: id } });
      print(ctx.io, `The version ${name} has been archived.`);
    }
  },
);
