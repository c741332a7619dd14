import type { Node } from '../framework/tree.ts';

/** Every command by its published name. Only the one that runs is loaded. */
export const root: Node = {
  summary: 'Self-hosted development environments.',
  children: {
    agent: { summary: 'Run the agent of a workspace.', hidden: true, load: () => import('./daemons/agent.ts') },
    provisioner: {
      summary: 'Run and inspect provisioner daemons and jobs.',
      aliases: ['provisioners'],
      children: {
        builtin: { hidden: true, load: () => import('./daemons/provisioner-builtin.ts') },
        runner: { hidden: true, load: () => import('./daemons/provisioner-runner.ts') },
      },
    },
    server: { summary: 'Run the server.', load: () => import('./daemons/server.ts') },
    version: { summary: 'Print the version.', load: () => import('./version.ts') },
  },
};
