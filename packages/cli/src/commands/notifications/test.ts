import { command } from '../../framework/definition.ts';
import { printDone } from '../../framework/io.ts';

export default command({}, async (ctx) => {
  const client = await ctx.client();
  await client.call('POST /notifications/test');
  printDone(ctx, 'A test notification is on its way to you.');
});
