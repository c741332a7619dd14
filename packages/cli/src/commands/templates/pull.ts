import { existsSync, readdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { AppError } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { orgFlag, yesFlag } from '../../lib/flags.ts';
import { findOrganization } from '../../lib/organization.ts';
import { confirm } from '../../lib/prompt.ts';
import { allVersions, findTemplate } from '../../lib/template.ts';
import { unpackTemplate } from './pack.ts';

const flags = {
  tar: { type: 'bool', description: 'Write a tar archive to standard output.' },
  zip: { type: 'bool', description: 'Write a zip archive to standard output.' },
  version: { type: 'string', description: 'Template version, by name, or active or latest. Default: active.' },
  ...yesFlag,
  ...orgFlag,
} as const;

export default command(
  { args: { template: { usage: 'name' }, destination: { optional: true } }, flags },
  async (ctx, { args, flags: given }) => {
    if (given.tar && given.zip) throw new AppError('invalid', 'Use either --tar or --zip, not both.');
    const client = await ctx.client();
    const organization = await findOrganization(client, given.org);
    const template = await findTemplate(client, organization, args.template);
    const versions = await allVersions(client, template.id, true);
    const wanted = given.version || 'active';
    const version =
      versions.find((one) => one.name === wanted) ??
      (wanted === 'active'
        ? versions.find((one) => one.id === template.active_version_id)
        : wanted === 'latest'
          ? versions[0]
          : undefined);
    if (!version)
      throw new AppError('not_found', `Version ${JSON.stringify(wanted)} of the template ${template.name} not found.`);
    const bytes = await client.bytes(`/files/${version.job.file_id}${given.zip ? '?format=zip' : ''}`);
    if (given.tar || given.zip) {
      ctx.io.stdout.write(bytes);
      return;
    }
    const destination = resolve(args.destination ?? template.name);
    if (existsSync(destination) && readdirSync(destination).length > 0) {
      await confirm(ctx, `${destination} is not empty. Overwrite files of the same name?`, given.yes);
    }
    await unpackTemplate(bytes, destination);
    printDone(ctx, `Version ${version.name} of ${template.name} is now in ${destination}.`);
  },
);
