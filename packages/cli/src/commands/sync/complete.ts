import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { callAgent, socketFlags } from '../../lib/agent-socket.ts';

export default command(
  { args: { unit: {} }, flags: socketFlags, help: 'Units that wait for this one can start now.' },
  async (ctx, { args: { unit }, flags }) => {
    await callAgent(flags['socket-path'], (agent) => agent.syncComplete({ unit }));
    print(ctx.io, 'Success');
  },
);
