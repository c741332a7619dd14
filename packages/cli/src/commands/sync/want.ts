import { command } from '../../framework/definition.ts';
import { print } from '../../framework/io.ts';
import { callAgent, socketFlags } from '../../lib/agent-socket.ts';

export default command(
  {
    args: { unit: {}, 'depends-on': { rest: true } },
    flags: socketFlags,
    help: 'The first unit can start when all other units are completed. They do not have to exist yet.',
    examples: [
      {
        does: 'Make the unit "editor" wait for "clone" and "install"',
        run: 'coder exp sync want editor clone install',
      },
    ],
  },
  async (ctx, { args: { unit, 'depends-on': wanted }, flags }) => {
    for (const dependsOn of wanted) {
      await callAgent(flags['socket-path'], (agent) => agent.syncWant({ unit, dependsOn }));
    }
    print(ctx.io, `Unit ${JSON.stringify(unit)} declared dependencies: [${wanted.join(', ')}]`);
  },
);
