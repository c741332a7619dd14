import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { callAgent, socketFlags } from '../../lib/agent-socket.ts';
import { tableFlags } from '../../lib/flags.ts';
import { type Columns, printRows } from '../../lib/output.ts';

interface Row {
  unit_name: string;
  status: string;
  is_ready: boolean;
}

const columns = {
  unit: (one) => one.unit_name,
  status: (one) => one.status,
  ready: (one) => String(one.is_ready),
} satisfies Columns<Row>;

const flags = { ...tableFlags(Object.keys(columns) as (keyof typeof columns)[]), ...socketFlags } as const;

export default command({ flags }, async (ctx, { flags: given }) => {
  const { units } = await callAgent(given['socket-path'], (agent) => agent.syncList({}));
  const rows = units
    .map(({ unit, status, isReady }): Row => ({ unit_name: unit, status, is_ready: isReady }))
    .sort((a, b) => (a.unit_name < b.unit_name ? -1 : 1));
  if (rows.length === 0 && given.output !== 'json') print(ctx.io, 'No units registered');
  else printRows(ctx, given, columns, rows);
});
