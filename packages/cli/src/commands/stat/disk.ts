import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { disk, usageText } from '../../lib/stat.ts';

const flags = {
  path: { type: 'string', default: '/', description: 'A path on the file system.' },
  prefix: { type: 'string', default: 'Gi', values: ['Ki', 'Mi', 'Gi', 'Ti'], description: 'The unit.' },
  output: { type: 'string', short: 'o', default: 'text', values: ['text', 'json'], description: 'Output format.' },
} as const;

export default command({ flags }, async (ctx, { flags: given }) => {
  const usage = await disk(given.path);
  print(ctx.io, given.output === 'json' ? JSON.stringify(usage) : usageText(usage, given.prefix));
});
