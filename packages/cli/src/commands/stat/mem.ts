import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { outputFlag } from '../../lib/flags.ts';
import { containerMemory, hostMemory, isContained, usageText } from './usage.ts';

const flags = {
  host: { type: 'bool', description: 'Show the usage of the host instead of the container.' },
  prefix: { type: 'string', default: 'Gi', values: ['Ki', 'Mi', 'Gi', 'Ti'], description: 'Unit of the sizes.' },
  ...outputFlag('text', 'json'),
} as const;

export default command({ flags }, async (ctx, { flags: given }) => {
  const usage = await (given.host || !isContained() ? hostMemory() : containerMemory());
  print(ctx.io, given.output === 'json' ? JSON.stringify(usage) : usageText(usage, given.prefix));
});
