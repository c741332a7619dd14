import { writeFileSync } from 'node:fs';
import { command } from '../../framework/definition.ts';
import { findBuild } from '../../lib/find-build.ts';

const flags = {
  build: { type: 'int', short: 'b', description: 'Number of the build to read from. Default: the latest build.' },
} as const;

export default command(
  { args: { workspace: {}, file: { optional: true } }, flags },
  async (ctx, { args, flags: given }) => {
    const client = await ctx.client();
    const build = await findBuild(client, args.workspace, given.build);
    const state = await client.bytes(`/workspacebuilds/${build.id}/state`);
    // the state contains secrets
    if (args.file === undefined) ctx.io.stdout.write(state);
    else writeFileSync(args.file, state, { mode: 0o600 });
  },
);
