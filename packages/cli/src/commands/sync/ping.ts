import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { callAgent, socketFlags } from '../../lib/agent-socket.ts';

export default command({ flags: socketFlags }, async (ctx, { flags }) => {
  await callAgent(flags['socket-path'], (agent) => agent.ping({}));
  print(ctx.io, 'Success');
});
