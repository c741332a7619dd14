import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';

export default command(
  {
    args: { title: {}, message: {} },
    help: 'A script uses it to say that it has ended. The title can be up to 120 characters long, the message up to 2,000.',
    examples: [
      { does: 'Notify yourself when a build ends', run: 'make && coder notifications custom Build "It is done."' },
    ],
  },
  async (ctx, { args: { title, message } }) => {
    const client = await ctx.client();
    await client.call('POST /notifications/custom', { body: { content: { title, message } } });
    printDone(ctx, 'The notification is on its way to you.');
  },
);
