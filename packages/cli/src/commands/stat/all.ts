import { homeFolder } from '@ropewalk/kit/home';
import { command } from '../../framework/definition.ts';
import { tableFlags } from '../../lib/flags.ts';
import { type Columns, printRows } from '../../lib/output.ts';
import {
  containerCpu,
  containerMemory,
  disk,
  hostCpu,
  hostMemory,
  isContained,
  type Usage,
  usageText,
} from './usage.ts';

interface Row {
  host_cpu: Usage;
  host_memory: Usage;
  home_disk: Usage;
  container_cpu?: Usage;
  container_memory?: Usage;
}

const text = (usage: Usage | undefined) => (usage ? usageText(usage) : '');

const columns = {
  'host cpu': (one) => text(one.host_cpu),
  'host memory': (one) => text(one.host_memory),
  'home disk': (one) => text(one.home_disk),
  'container cpu': (one) => text(one.container_cpu),
  'container memory': (one) => text(one.container_memory),
} satisfies Columns<Row>;

const flags = tableFlags(Object.keys(columns) as (keyof typeof columns)[]);

export default command({ flags }, async (ctx, { flags: given }) => {
  const contained = isContained();
  const [host_cpu, host_memory, home_disk, container_cpu, container_memory] = await Promise.all([
    hostCpu(),
    hostMemory(),
    disk(homeFolder(ctx.env)),
    contained ? containerCpu() : undefined,
    contained ? containerMemory() : undefined,
  ]);
  const row: Row = {
    host_cpu,
    host_memory,
    home_disk,
    ...(container_cpu ? { container_cpu } : {}),
    ...(container_memory ? { container_memory } : {}),
  };
  printRows(ctx, given, columns, [row]);
});
