import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { containerCpu, hostCpu, isContained, usageText } from '../../lib/stat.ts';

const flags = {
  host: { type: 'bool', description: 'Of the host, not of the container.' },
  output: { type: 'string', short: 'o', default: 'text', values: ['text', 'json'], description: 'Output format.' },
} as const;

export default command({ flags }, async (ctx, { flags: given }) => {
  const usage = await (given.host || !isContained() ? hostCpu() : containerCpu());
  print(ctx.io, given.output === 'json' ? JSON.stringify(usage) : usageText(usage));
});
