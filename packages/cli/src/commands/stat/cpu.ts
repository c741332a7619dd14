import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { outputFlag } from '../../lib/flags.ts';
import { containerCpu, hostCpu, isContained, usageText } from './usage.ts';

const flags = {
  host: { type: 'bool', description: 'Show the usage of the host instead of the container.' },
  ...outputFlag('text', 'json'),
} as const;

export default command({ flags }, async (ctx, { flags: given }) => {
  const usage = await (given.host || !isContained() ? hostCpu() : containerCpu());
  print(ctx.io, given.output === 'json' ? JSON.stringify(usage) : usageText(usage));
});
