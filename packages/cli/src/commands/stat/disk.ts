import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { outputFlag } from '../../lib/flags.ts';
import { disk, usageText } from './usage.ts';

const flags = {
  path: { type: 'string', default: '/', description: 'Path on the file system to measure.' },
  prefix: { type: 'string', default: 'Gi', values: ['Ki', 'Mi', 'Gi', 'Ti'], description: 'Unit of the sizes.' },
  ...outputFlag('text', 'json'),
} as const;

export default command({ flags }, async (ctx, { flags: given }) => {
  const usage = await disk(given.path);
  print(ctx.io, given.output === 'json' ? JSON.stringify(usage) : usageText(usage, given.prefix));
});
