import { AppError } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { orgFlag, yesFlag } from '../../lib/flags.ts';
import { findOrganization } from '../../lib/organization.ts';
import { confirm } from '../../lib/prompt.ts';
import { findVersion } from '../../lib/template.ts';

const flags = { ...yesFlag, ...orgFlag } as const;

/** A command that archives or unarchives versions after a question. */
export function versionsCommand(action: 'archive' | 'unarchive', verb: string) {
  return command(
    {
      args: {
        template: { usage: 'template-name' },
        versions: { usage: 'template-version-names', rest: true, optional: true },
      },
      flags,
    },
    async (ctx, { args: { template, versions: names }, flags: given }) => {
      if (names.length === 0) {
        throw new AppError(
          'invalid',
          `Missing version names. Usage: coder templates versions ${action} <template-name> <name>...`,
        );
      }
      const client = await ctx.client();
      const organization = await findOrganization(client, given.org);
      const versions = await Promise.all(names.map((name) => findVersion(client, organization, template, name)));
      await confirm(ctx, `${verb} ${names.join(', ')} of ${template}?`, given.yes);
      for (const { id, name } of versions) {
        await client.call(`POST /templateversions/{templateversion}/${action}`, { params: { templateversion: id } });
        printDone(ctx, `The version ${name} has been ${action}d.`);
      }
    },
  );
}
