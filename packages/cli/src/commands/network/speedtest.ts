import { AppError } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import { note, print } from '../../framework/io.ts';
import { tableFlags } from '../../lib/flags.ts';
import { printTable } from '../../lib/output.ts';
import { reachAgent } from '../../lib/running.ts';
import { splitTarget } from '../../lib/workspace.ts';
import { type Direction, type Interval, measureThroughput } from './throughput.ts';

const COLUMNS = ['Interval', 'Throughput'] as const;
const LONGEST_MS = 10 * 60_000;

const flags = {
  direct: {
    type: 'bool',
    short: 'd',
    description: 'Wait for a direct connection. Has no effect.',
  },
  direction: {
    type: 'string',
    default: 'down',
    values: ['up', 'down'],
    description: 'Direction of the data: down from the workspace, or up to it.',
  },
  time: { type: 'duration', short: 't', default: '5s', description: 'Duration of the test, at most 10m.' },
  'pcap-file': {
    type: 'string',
    description: 'File for a packet capture. Not supported: the connection has no packets.',
  },
  ...tableFlags(COLUMNS),
} as const;

const seconds = ({ start_time_seconds: from, end_time_seconds: to }: Interval) =>
  `${from.toFixed(2)}-${to.toFixed(2)} sec`;
const mbits = ({ throughput_mbits: value }: Interval) => `${value.toFixed(1)} Mbits/sec`;

/** Measures the throughput of the connection to a workspace, through the server or over the tailnet. */
export default command({ args: { workspace: {} }, flags }, async (ctx, { args, flags: given }) => {
  if (given['pcap-file']) throw new AppError('invalid', '--pcap-file is not supported: the connection has no packets.');
  if (given.time < 1 || given.time > LONGEST_MS) {
    throw new AppError('invalid', '--time must be between 1ms and 10m.');
  }
  if (given.direct) note(ctx.io, '--direct has no effect.');
  const client = await ctx.client();
  const { agent } = await reachAgent(ctx, client, splitTarget(args.workspace), { autostart: false });
  const { openTunnel } = await import('@ropewalk/client/stream');
  const { stream } = await openTunnel(client, agent.id, { service: 'speedtest', signal: ctx.signal });
  note(ctx.io, `Sending ${given.direction} for ${given.time / 1_000} s.`);
  const result = await measureThroughput(stream, given.direction as Direction, given.time, ctx.signal);
  if (given.output === 'json') {
    print(ctx.io, JSON.stringify(result, null, 2));
    return 0;
  }
  const rows = [...result.intervals.map((one) => ({ one, label: '' })), { one: result.overall, label: 'total ' }];
  const columns = {
    Interval: ({ one, label }: (typeof rows)[number]) => label + seconds(one),
    Throughput: ({ one }: (typeof rows)[number]) => mbits(one),
  };
  printTable(ctx, given.column, columns, rows);
  return 0;
});
