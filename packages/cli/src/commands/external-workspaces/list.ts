import { listCommand } from '../workspaces/list.ts';

export default listCommand({
  filter: 'has_external_agent:true',
  create: 'coder external-workspaces create <workspace>',
  defaults: ['workspace', 'template', 'status', 'healthy', 'last built', 'current version', 'outdated'],
  examples: [
    { does: 'List your external workspaces', run: 'coder external-workspaces list' },
    { does: 'List those of all users', run: 'coder external-workspaces list --all' },
  ],
});
