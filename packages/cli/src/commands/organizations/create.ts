import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { yesFlag } from '../../lib/flags.ts';
import { confirm } from '../../lib/prompt.ts';

export default command(
  { args: { name: { usage: 'organization-name' } }, flags: yesFlag },
  async (ctx, { args, flags }) => {
    const client = await ctx.client();
    await confirm(ctx, `Create the organization ${args.name}?`, flags.yes);
    const made = await client.call('POST /organizations', { body: { name: args.name } });
    printDone(ctx, `The organization ${made.name} (${made.id}) has been created.`);
  },
);
