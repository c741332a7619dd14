import { AppError } from '@ropewalk/kit';
import { command } from '../../../framework/definition.ts';
import { print } from '../../../framework/io.ts';
import { expandHome } from '../../../lib/expand-home.ts';
import { bytesText, parseBytes } from './bytes.ts';
import { flags as startFlags } from './start.ts';

const flags = {
  'cache-dir': startFlags['cache-dir'],
  age: {
    type: 'duration',
    description: 'Remove versions and engines that were not used for this time, such as 168h.',
  },
  size: {
    type: 'string',
    description:
      'Remove the versions and engines that were used longest ago until the cache has at most this size, such as ' +
      '500MiB or 20GiB.',
  },
  'dry-run': { type: 'bool', short: 'n', description: 'Print the changes without making them.' },
} as const;

const help =
  'Removes prepared template versions, the providers and modules that only they use, and downloaded engines. ' +
  'Keeps files that a running build or daemon uses. Later builds and daemons download removed files again, from ' +
  'the server or their source.';

const examples = [
  { does: 'Remove versions that were not used for a week', run: 'coder provisioner cache prune --age 168h' },
  { does: 'Show what a limit of 20 GiB would remove', run: 'coder provisioner cache prune --size 20GiB --dry-run' },
];

export default command({ flags, help, examples }, async (ctx, { flags: given }) => {
  if (given.age === undefined && !given.size)
    throw new AppError('invalid', 'Nothing to remove: set --age, such as --age 168h, or --size, such as --size 20GiB.');
  const { pruneDaemonCache } = await import('@ropewalk/provisioner/daemon/prune-cache');
  const pruned = await pruneDaemonCache(expandHome(given['cache-dir'], ctx.env), {
    unusedMs: given.age,
    mostBytes: given.size ? parseBytes('--size', given.size) : undefined,
    dryRun: given['dry-run'],
  });
  const { engines, versions, packages, modules, freed, left } = pruned;
  const what = `${versions} prepared versions, ${packages} providers, ${modules} sets of modules and ${engines} engines`;
  const verb = given['dry-run'] ? 'Would remove' : 'Removed';
  print(
    ctx.io,
    `${verb} ${what}: ${bytesText(freed)}. ${bytesText(left)} ${given['dry-run'] ? 'would be' : 'are'} left.`,
  );
});
