import { command } from '../../framework/definition.ts';
import { findProxy } from './find.ts';
import { printToken, tokenFlags } from './token-output.ts';

const help = 'The old token is invalid immediately. Restart the processes of the proxy with the new one.';

export default command(
  { args: { proxy: { usage: 'name|id' } }, flags: tokenFlags, help },
  async (ctx, { args, flags }) => {
    const client = await ctx.client();
    const { id: workspaceproxy } = await findProxy(client, args.proxy);
    const answer = await client.call('PATCH /workspaceproxies/{workspaceproxy}', {
      params: { workspaceproxy },
      body: { regenerate_token: true },
    });
    printToken(ctx, flags, answer, { done: 'Replaced the token of', url: client.url });
  },
);
