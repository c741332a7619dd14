import { createCommand } from '../workspaces/create.ts';

export default createCommand({
  external: true,
  args: { workspace: {} },
  examples: [
    {
      does: 'Create an external workspace from the template "laptop"',
      run: 'coder external-workspaces create dev --template laptop',
    },
  ],
});
