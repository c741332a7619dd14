import { AppError } from '@ropewalk/kit/errors';
import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';
import { yesFlag } from '../../lib/flags.ts';
import { orNotFound } from '../../lib/not-found.ts';
import { confirm } from '../../lib/prompt.ts';

export default command(
  { args: { organization: { usage: 'name|id' } }, flags: yesFlag },
  async (ctx, { args, flags }) => {
    const client = await ctx.client();
    const { id, name, is_default } = await orNotFound(
      client.call('GET /organizations/{organization}', { params: { organization: args.organization } }),
      `Organization ${JSON.stringify(args.organization)} not found, or you don't have access to it.`,
    );
    if (is_default) {
      throw new AppError('invalid', `Cannot delete the organization ${name}: it is the default organization.`);
    }
    await confirm(ctx, `Delete the organization ${name}?`, flags.yes);
    await client.call('DELETE /organizations/{organization}', { params: { organization: id } });
    printDone(ctx, `The organization ${name} has been deleted.`);
  },
);
