import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { callAgent, socketFlags } from '../../lib/agent-socket.ts';
import { tableFlags } from '../../lib/flags.ts';
import { type Columns, printTable } from '../../lib/output.ts';

interface Row {
  depends_on: string;
  required_status: string;
  current_status: string;
  is_satisfied: boolean;
}

const shown = (status: string) => status || 'not registered';

const columns = {
  'depends on': (one) => one.depends_on,
  'required status': (one) => one.required_status,
  'current status': (one) => shown(one.current_status),
  satisfied: (one) => String(one.is_satisfied),
} satisfies Columns<Row>;

const flags = { ...tableFlags(Object.keys(columns) as (keyof typeof columns)[]), ...socketFlags } as const;

export default command({ args: { unit: {} }, flags }, async (ctx, { args: { unit }, flags: given }) => {
  const { status, isReady, dependencies } = await callAgent(given['socket-path'], (agent) =>
    agent.syncStatus({ unit }),
  );
  const rows = dependencies
    .map(
      ({ dependsOn, requiredStatus, currentStatus, isSatisfied }): Row => ({
        depends_on: dependsOn,
        required_status: requiredStatus,
        current_status: currentStatus,
        is_satisfied: isSatisfied,
      }),
    )
    .sort((a, b) => (a.depends_on < b.depends_on ? -1 : 1));
  if (given.output === 'json') {
    print(ctx.io, JSON.stringify({ unit_name: unit, status, is_ready: isReady, dependencies: rows }, null, 2));
    return;
  }
  print(ctx.io, `Unit: ${unit}\nStatus: ${shown(status)}\nReady: ${isReady}\n\nDependencies:`);
  if (rows.length === 0) print(ctx.io, 'No dependencies found');
  else printTable(ctx, given.column, columns, rows);
});
