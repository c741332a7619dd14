import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { yesFlag } from '../../lib/flags.ts';
import { confirm } from '../../lib/prompt.ts';
import { findProxy } from './find.ts';

const help = 'Its token is invalid immediately, so that its processes serve nobody who is new.';

export default command(
  { args: { proxy: { usage: 'name|id' } }, flags: yesFlag, help },
  async (ctx, { args, flags }) => {
    const client = await ctx.client();
    const { id, name } = await findProxy(client, args.proxy);
    await confirm(ctx, `Delete workspace proxy ${name}?`, flags.yes);
    await client.call('DELETE /workspaceproxies/{workspaceproxy}', { params: { workspaceproxy: id } });
    printDone(ctx, `Deleted workspace proxy ${name}.`);
  },
);
